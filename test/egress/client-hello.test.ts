import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { beforeSecondHello, readClientHello, readServerStart } from '../../runtime/egress/client-hello.ts'
import { RecordGuard } from '../../runtime/egress/record-guard.ts'
import { clientHello, fragmented, helloMessage, record, serverHello, serverName } from './hello.ts'

const MAX = 16_384
const read = (bytes: Buffer) => readClientHello(bytes, MAX)
const NAME = 'a.example.com'

describe('a ClientHello', () => {
  it('is read with its server name and length', () => {
    const bytes = clientHello(NAME)

    expect(read(bytes)).toEqual({ kind: 'hello', serverName: NAME, length: bytes.length })
    expect(read(Buffer.concat([bytes, Buffer.from('more')]))).toMatchObject({ length: bytes.length })
  })

  it.each([10, 50, 200])('is read if it is split into records of %i bytes', (size) => {
    const bytes = fragmented(helloMessage([serverName(NAME)]), size)

    expect(read(bytes)).toEqual({ kind: 'hello', serverName: NAME, length: bytes.length })
  })

  it('is refused if it is split into too many records', () => {
    const bytes = fragmented(helloMessage([serverName(NAME)]), 1)

    expect(read(bytes)).toMatchObject({
      kind: 'refused',
      reason: expect.stringContaining('too many records'),
    })
  })

  it('needs more bytes until it is complete', () => {
    const bytes = fragmented(helloMessage([serverName(NAME)]), 20)

    for (let length = 0; length < bytes.length; length++)
      expect(read(bytes.subarray(0, length))).toEqual({ kind: 'more' })
  })

  it.each([
    ['no server name', record(helloMessage([])), 'no-server-name'],
    ['an encrypted one', record(helloMessage([serverName(NAME), [0xfe0d, [0]]])), 'encrypted-client-hello'],
    [
      'an encrypted one of an earlier draft',
      record(helloMessage([[0xffce, [0]], serverName(NAME)])),
      'encrypted-client-hello',
    ],
    ['two names', record(helloMessage([serverName(NAME, 'b.example.com')])), 'client-hello'],
    [
      'two extensions with a name',
      record(helloMessage([serverName(NAME), serverName('b.example.com')])),
      'client-hello',
    ],
    ['an empty list of names', record(helloMessage([[0, [0, 0]]])), 'client-hello'],
    [
      'another message in its record',
      record(Buffer.concat([helloMessage([serverName(NAME)]), helloMessage([])])),
      'client-hello',
    ],
    [
      'an empty record before it',
      Buffer.concat([record(Buffer.alloc(0)), clientHello(NAME)]),
      'client-hello',
    ],
    [
      'an alert in the middle',
      Buffer.concat([
        record(helloMessage([serverName(NAME)]).subarray(0, 9)),
        record(Buffer.from([1, 0]), 21),
      ]),
      'client-hello',
    ],
    ['a length above the limit', record(Buffer.from([1, 0, 0x80, 0])), 'client-hello'],
    ['a field beyond its end', record(Buffer.from([1, 0, 0, 4, 3, 3, 0, 0])), 'client-hello'],
    ['another first message', record(Buffer.from([2, 0, 0, 0])), 'client-hello'],
    ['SSL 2', Buffer.from([22, 2, 0, 0, 5, 1, 2, 3, 4, 5]), 'client-hello'],
  ])('is refused with %s', (_what, bytes, fault) => {
    expect(read(bytes)).toMatchObject({ kind: 'refused', fault })
  })

  it('is refused if it never ends', () => {
    const header = Buffer.from([1, 0, 0x3f, 0])
    const bytes = Buffer.concat([header, Buffer.alloc(0x3f00)])

    expect(read(fragmented(bytes, 1).subarray(0, 40_000)).kind).toBe('refused')
  })

  it('never throws, and needs no bytes after the limit', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), fc.boolean(), (content, isRecord) => {
        const bytes = Buffer.from(content)
        expect(['more', 'hello', 'refused']).toContain(read(isRecord ? record(bytes) : bytes).kind)
      }),
      { numRuns: 3000 },
    )
    expect(read(Buffer.alloc(3 * MAX, 22)).kind).not.toBe('more')
  })
})

describe('the response of a server', () => {
  const warning = record(Buffer.from([1, 112]), 21)

  it.each([
    ['retry', serverHello('retry')],
    ['hello', serverHello('other')],
    ['retry', Buffer.concat([warning, serverHello('retry')])],
    ['hello', Buffer.concat([warning, serverHello('other')])],
    ['alert', record(Buffer.from([2, 40]), 21)],
    // The client would see the same message, and might send a second ClientHello.
    ['other', fragmented(serverHello('retry').subarray(5), 20)],
    ['other', Buffer.concat(new Array(6).fill(warning))],
    ['other', record(Buffer.from([1]), 20)],
    ['other', Buffer.from('HTTP/1.1 400 Bad Request')],
    ['other', record(Buffer.alloc(60, 1))],
    [undefined, serverHello('retry').subarray(0, 30)],
    [undefined, Buffer.alloc(0)],
  ])('begins with %s', (kind, bytes) => {
    expect(readServerStart(bytes)).toBe(kind)
  })

  it('may follow early data, which precedes the second ClientHello', () => {
    const early = record(Buffer.alloc(100), 23)
    const change = record(Buffer.from([1]), 20)

    expect(beforeSecondHello(Buffer.concat([early, early, change, clientHello('a')]))).toBe(
      2 * early.length + change.length,
    )
    expect(beforeSecondHello(clientHello('a'))).toBe(0)
    expect(beforeSecondHello(early.subarray(0, 50))).toBe(0)
  })
})

describe('the records of a client after its ClientHello', () => {
  const handshake = record(Buffer.alloc(20))
  const data = record(Buffer.alloc(30), 23)

  it.each([
    [false, [handshake, data, data]],
    [false, [record(Buffer.from([1]), 20), data, record(Buffer.from([1, 0]), 21)]],
    [true, [handshake, data, handshake]],
  ])('begin a renegotiation: %s', (expected, records) => {
    const bytes = Buffer.concat(records)
    const inPieces = new RecordGuard()
    let found = false
    for (const byte of bytes) found = inPieces.renegotiates(Uint8Array.of(byte)) || found

    expect(new RecordGuard().renegotiates(bytes)).toBe(expected)
    expect(found).toBe(expected)
  })
})
