import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseHostName } from '../../policies/agent/egress/host-name.ts'
import { parseAbsoluteForm, parseAuthority } from '../../runtime/egress/authority.ts'

describe('a host name', () => {
  it.each([
    ['registry.npmjs.org', 'registry.npmjs.org'],
    ['Registry.NPMJS.org', 'registry.npmjs.org'],
    ['registry.npmjs.org.', 'registry.npmjs.org'],
    ['xn--bcher-kva.ch', 'xn--bcher-kva.ch'],
    ['localhost', 'localhost'],
  ])('%s is the name %s', (text, name) => {
    expect(parseHostName(text)).toEqual({ kind: 'name', name })
  })

  it.each([
    ['127.0.0.1', '127.0.0.1'],
    ['::ffff:7f00:1', '::ffff:7f00:1'],
    ['::FFFF:127.0.0.1', '::ffff:7f00:1'],
  ])('%s is the address %s', (text, name) => {
    expect(parseHostName(text)).toEqual({ kind: 'address', name })
  })

  it.each([
    ...[
      '',
      '.',
      'a..b',
      'a.b..',
      '-a.com',
      'a-.com',
      'a_b.com',
      '*.a.com',
      'a.com/x',
      'a.com:1',
      'user@a.com',
    ],
    ...[
      'a.com\0',
      'a.com\0.b.com',
      'a%2ecom',
      '[a.com]',
      ' a.com',
      'a.com\n',
      'bücher.ch',
      'a。com',
      'ⓐ.com',
    ],
    // The Kelvin sign and the long s become ASCII letters in lower or upper case.
    ...['\u212aelvin.com', 'te\u017ft.com'],
    // URL parsers read these as addresses.
    ...['127.1', '0x7f.1', '0x7f000001', '2130706433', 'a.com.1', '1.2.3.4.5', '0177.0.0.1'],
    ...['fe80::1%eth0', 'xn--.com', 'a'.repeat(64), `${'a.'.repeat(126)}com`],
  ])('refuses %j', (text) => {
    expect(parseHostName(text).kind).toBe('refused')
  })

  it('gives a name that it reads again as the same', () => {
    fc.assert(
      fc.property(fc.oneof(fc.domain(), fc.string(), fc.string({ unit: 'binary' })), (text) => {
        const parsed = parseHostName(text)
        if (parsed.kind !== 'refused') expect(parseHostName(parsed.name)).toEqual(parsed)
      }),
      { numRuns: 2000 },
    )
  })

  it('agrees with the parser of URLs on every name that it accepts', () => {
    const label = fc.string({ unit: fc.constantFrom(...'aZ09-.xn'), maxLength: 12 })
    fc.assert(
      fc.property(fc.oneof(fc.domain(), label), (text) => {
        const parsed = parseHostName(text)
        if (parsed.kind !== 'name') return
        expect(new URL(`https://${text}/`).hostname.replace(/\.$/, '')).toBe(parsed.name)
      }),
      { numRuns: 3000 },
    )
  })
})

describe('the target of CONNECT', () => {
  it.each([
    ['a.example.com:443', 'a.example.com', 443],
    ['A.example.com.:443', 'a.example.com', 443],
    ['1.2.3.4:80', '1.2.3.4', 80],
    ['[::1]:80', '::1', 80],
  ])('is read from %s', (text, name, port) => {
    expect(parseAuthority(text)).toMatchObject({ ok: true, target: { host: { name }, port } })
  })

  it.each([
    ...[
      'a.com',
      'a.com:',
      'a.com:0',
      'a.com:65536',
      'a.com:0443',
      'a.com:443x',
      'a.com:+443',
      ':443',
      '[a.com]:443',
    ],
    ...[
      '[1.2.3.4]:443',
      '::1:443',
      'user@a.com:443',
      'a.com:443/x',
      'a.com:443:443',
      'http://a.com:443',
      'a%2ecom:443',
    ],
    ...['[::1%lo]:80', 'a.com\0:443', 'a.com :443', '[::1]443'],
  ])('is refused in %j', (text) => {
    expect(parseAuthority(text).ok).toBe(false)
  })
})

describe('the target of a request to a proxy', () => {
  it.each([
    ['http://a.com', 'a.com', 80, '/'],
    ['http://a.com/x?y=1', 'a.com', 80, '/x?y=1'],
    ['http://a.com:8080?y', 'a.com', 8080, '/?y'],
    ['HTTP://A.com/x', 'a.com', 80, '/x'],
  ])('is read from %s', (text, ...expected) => {
    const [name, port, path] = expected
    expect(parseAbsoluteForm(text)).toMatchObject({ ok: true, target: { host: { name }, port }, path })
  })

  it.each([
    'https://a.com/',
    'ftp://a.com/',
    '/x',
    'a.com/x',
    'http://u@a.com/',
    'http://a.com\\@b.com/',
    'http:///x',
  ])('is refused in %s', (text) => {
    expect(parseAbsoluteForm(text).ok).toBe(false)
  })
})
