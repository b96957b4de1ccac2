import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { gitRequestFault, isPush, pushEncodingFault } from '../../runtime/egress/git/git-request.ts'
import { branchesOf, judgePush } from '../../runtime/egress/git/judge-push.ts'
import { pktLine } from '../../runtime/egress/git/pkt-line.ts'
import { MAX_COMMANDS, PushList, type PushReading } from '../../runtime/egress/git/push-list.ts'
import { PushReport, refusedReport } from '../../runtime/egress/git/push-report.ts'

const RUN = 'run_0198'
const ZERO = '0'.repeat(40)
const A = 'a'.repeat(40)
const B = 'b'.repeat(40)
const OWN = `${branchesOf(RUN)}fix`
const CAPABILITIES = ' report-status-v2 side-band-64k object-format=sha1 agent=git/2.39.5'
const PACK = Buffer.from('PACK\0\0\0\x02\0\0\0\0')

const command = (ref: string, oldId = ZERO, newId = A) => `${oldId} ${newId} ${ref}`
const list = (...lines: string[]) =>
  Buffer.concat([...lines.map((line) => pktLine(line)), Buffer.from('0000')])
const push = (first: string, ...others: string[]) =>
  Buffer.concat([list(`${first}\0${CAPABILITIES}`, ...others), PACK])

function readAll(body: Buffer, size = body.length || 1): { reading: PushReading; list: PushList } {
  const read = new PushList()
  let reading: PushReading = { kind: 'more' }
  for (let at = 0; at < body.length; at += size) reading = read.push(body.subarray(at, at + size))
  return { reading: reading.kind === 'more' ? read.end() : reading, list: read }
}

/** Whether the proxy would forward the body. */
function isForwarded(body: Buffer, last: Record<string, string> = {}): boolean {
  const { reading, list } = readAll(body)
  if (reading.kind === 'probe') return true
  const hasPushed = (ref: string, commit: string) => last[ref] === commit
  return reading.kind === 'push' && !judgePush(list.commands, { runId: RUN, rule: 'allow', hasPushed })
}

describe('a push', () => {
  it('may create and continue branches below the prefix of its run', () => {
    expect(isForwarded(push(command(OWN)))).toBe(true)
    expect(isForwarded(push(command(OWN, A, B)), { [OWN]: A })).toBe(true)
    expect(isForwarded(push(command(OWN), command(`${branchesOf(RUN)}docs/readme-2`)))).toBe(true)
    expect(isForwarded(push(command(OWN, '0'.repeat(64), 'a'.repeat(64))))).toBe(true)
  })

  it('may be empty, because git probes the credential with an empty list', () => {
    expect(readAll(Buffer.from('0000')).reading).toEqual({ kind: 'probe' })
  })

  it('may come from a shallow clone', () => {
    const lines = [`shallow ${B}`, `${command(OWN)}\0${CAPABILITIES}`]
    expect(isForwarded(Buffer.concat([list(...lines), PACK]))).toBe(true)
  })

  it.for([
    ['another branch', push(command('refs/heads/main'))],
    ['a tag', push(command('refs/tags/v1'))],
    ['the branch of another run', push(command('refs/heads/agentweaver/run_0199/fix'))],
    ['a run whose id begins with its own', push(command(`refs/heads/agentweaver/${RUN}9/fix`))],
    ['the prefix itself', push(command(branchesOf(RUN)))],
    ['a path that leaves the prefix', push(command(`${branchesOf(RUN)}../../main`))],
    ['a path with an empty component', push(command(`${branchesOf(RUN)}/fix`))],
    ['a lock file', push(command(`${branchesOf(RUN)}fix.lock`))],
    ['a lock folder', push(command(`${branchesOf(RUN)}fix.lock/a`))],
    ['a name that ends in a dot', push(command(`${branchesOf(RUN)}fix.`))],
    ['a hidden name', push(command(`${branchesOf(RUN)}.git`))],
    ['a name with a wildcard', push(command(`${branchesOf(RUN)}a*`))],
    ['HEAD', push(command('HEAD'))],
    ['the prefix in another case', push(command(OWN.replace('heads', 'Heads')))],
    ['a foreign branch after its own', push(command(OWN), command('refs/heads/main'))],
    ['one branch twice', push(command(OWN), command(OWN, ZERO, B))],
    ['a deletion', push(command(OWN, A, ZERO))],
    ['a commit that another client pushed', push(command(OWN, B, A))],
  ] as const)('may not update %s', ([_name, body]) => {
    expect(readAll(body).reading.kind).toBe('push')
    expect(isForwarded(body, { [OWN]: A })).toBe(false)
  })

  it.for([
    ['nothing', Buffer.alloc(0)],
    ['an end within the list', push(command(OWN)).subarray(0, 60)],
    ['a list without an end', Buffer.concat([pktLine(`${command(OWN)}\0${CAPABILITIES}`), PACK])],
    ['no objects', list(`${command(OWN)}\0${CAPABILITIES}`)],
    [
      'something else than objects',
      Buffer.concat([list(`${command(OWN)}\0${CAPABILITIES}`), Buffer.from('001epush-option')]),
    ],
    [
      'a second list',
      Buffer.concat([list(`${command(OWN)}\0${CAPABILITIES}`), list(command('refs/heads/main')), PACK]),
    ],
    ['an empty list with objects', Buffer.concat([Buffer.from('0000'), PACK])],
    ['a list after an empty one', Buffer.concat([Buffer.from('0000'), push(command('refs/heads/main'))])],
    ['the delimiter of protocol version 2', Buffer.concat([Buffer.from('0001'), push(command(OWN))])],
    ['an empty line', Buffer.concat([Buffer.from('0004'), push(command(OWN))])],
    ['a length in upper case', Buffer.from('00AA')],
    ['a length with a sign', Buffer.from('+0aa')],
    ['a length with a blank', Buffer.from(' 0aa')],
    ['a long line', Buffer.from(`ffff${'a'.repeat(4000)}`)],
    ['a push certificate', Buffer.concat([list(`push-cert\0${CAPABILITIES}`), PACK])],
    ['push options', push(`${command(OWN)}\0push-options`)],
    [
      'push options among the capabilities',
      Buffer.concat([list(`${command(OWN)}\0 report-status push-options`), PACK]),
    ],
    ['an unknown capability', Buffer.concat([list(`${command(OWN)}\0 report-status x-move=main`), PACK])],
    ['capabilities in the second command', push(command(OWN), `${command('refs/heads/main')}\0 a`)],
    [
      'a ref after the capabilities',
      Buffer.concat([list(`${command(OWN)}\0 agent=a\0${command('refs/heads/main')}`), PACK]),
    ],
    ['a blank in a ref', push(command(`${OWN} refs/heads/main`))],
    ['a line feed in a ref', push(command(`${OWN}\nrefs/heads/main`))],
    ['two line feeds', push(command(OWN), `${command(`${OWN}2`)}\n\n`)],
    ['a ref in Unicode', push(command(`${OWN}\u00e9`))],
    ['ids of two lengths', push(command(OWN, ZERO, 'a'.repeat(64)))],
    ['an id in upper case', push(command(OWN, ZERO, 'A'.repeat(40)))],
    ['two blanks', push(`${ZERO}  ${A} ${OWN}`)],
    ['a shallow line after a command', push(command(OWN), `shallow ${A}`)],
    ['a shallow line that is a command', Buffer.concat([list(`shallow ${A} refs/heads/main`), PACK])],
    ['gzip', Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0])],
    [
      'too many refs',
      push(command(`${OWN}0`), ...Array.from({ length: MAX_COMMANDS }, (_, at) => command(`${OWN}-${at}`))),
    ],
  ] as const)('is refused if its body has %s', ([_name, body]) => {
    expect(readAll(body).reading.kind).toBe('refused')
    expect(isForwarded(body)).toBe(false)
  })

  it('may update the highest number of refs', () => {
    const others = Array.from({ length: MAX_COMMANDS - 1 }, (_, at) => command(`${OWN}-${at}`))
    expect(isForwarded(push(command(OWN), ...others))).toBe(true)
  })
})

/** Reads a list like `read_head_info` of git's receive-pack: NUL ends a command, and everything else is lenient. */
function refsAsGitReads(body: Buffer): string[] {
  const refs: string[] = []
  for (let at = 0; ; ) {
    const length = Number.parseInt(body.toString('latin1', at, at + 4), 16)
    if (!(length >= 4)) return refs
    const line = body.toString('latin1', at + 4, at + length).replace(/\n$/, '')
    const [text = ''] = line.split('\0')
    const found = /^(?:[0-9a-fA-F]{64} [0-9a-fA-F]{64}|[0-9a-fA-F]{40} [0-9a-fA-F]{40}) (.*)$/s.exec(text)
    if (found?.[1] !== undefined) refs.push(found[1])
    at += length
  }
}

describe('any body', () => {
  const ids = fc.constantFrom(ZERO, A, B, 'A'.repeat(40), 'a'.repeat(64), '0'.repeat(64), 'x')
  const refs = fc.oneof(
    fc.constantFrom(OWN, `${OWN}2`, 'refs/heads/main', branchesOf(RUN), 'HEAD', `${OWN}/../../main`),
    fc.string({ unit: 'binary-ascii', maxLength: 12 }).map((tail) => `${branchesOf(RUN)}${tail}`),
  )
  const commands = fc.tuple(ids, ids, refs).map(([a, b, ref]) => `${a} ${b} ${ref}`)
  const line = fc.oneof(
    { weight: 6, arbitrary: commands },
    fc.constantFrom(`shallow ${A}`, 'push-cert', '', '\n', command('refs/heads/main')),
    fc.string({ unit: 'binary-ascii', maxLength: 30 }),
  )
  const withCapabilities = fc
    .tuple(line, fc.constantFrom('', `\0${CAPABILITIES}`, '\0 push-options', `\0\0${CAPABILITIES}`))
    .map(([text, capabilities]) => text + capabilities)
  const piece = fc.oneof(
    { weight: 8, arbitrary: withCapabilities.map((text) => pktLine(text)) },
    {
      weight: 3,
      arbitrary: fc.constantFrom('0000', '0001', '0004', 'PACK', '00').map((t) => Buffer.from(t)),
    },
    fc.uint8Array({ maxLength: 8 }).map((bytes) => Buffer.from(bytes)),
  )
  const mixed = fc.array(piece, { maxLength: 6 }).map((pieces) => Buffer.concat([...pieces, PACK]))
  const regular = fc
    .tuple(fc.array(refs, { minLength: 1, maxLength: 4 }), fc.array(line, { maxLength: 1 }))
    .map(([names, more]) => {
      const [first = '', ...others] = names.map((ref) => command(ref))
      return push(first, ...others, ...more)
    })
  const bodies = fc.oneof(mixed, regular)

  it('that is forwarded updates only the own refs of its run, as git reads it', () => {
    let forwarded = 0
    fc.assert(
      fc.property(bodies, (body) => {
        if (!isForwarded(body)) return
        forwarded += 1
        for (const ref of refsAsGitReads(body)) expect(ref.startsWith(branchesOf(RUN))).toBe(true)
      }),
      { numRuns: 5000 },
    )
    expect(forwarded).toBeGreaterThan(0)
  })

  it('gives the same reading in chunks of any size', () => {
    fc.assert(
      fc.property(bodies, fc.integer({ min: 1, max: 40 }), (body, size) => {
        expect(readAll(body, size).reading).toEqual(readAll(body).reading)
      }),
      { numRuns: 1000 },
    )
  })
})

describe('a request of git', () => {
  it.for([
    ['GET', '/team/app.git/info/refs?service=git-receive-pack', undefined],
    ['POST', '/team/app.git/git-upload-pack', undefined],
    ['GET', '/team/app.git/info/refs', 'smart protocol'],
    ['GET', '/team/app.git/info/refs?service=git-receive-pack&service=git-upload-pack', 'smart protocol'],
    ['POST', '/team/app.git/info/lfs/objects/batch', 'LFS'],
    ['POST', '/team/app.git/git-receive-pack?a=b', 'not one that git sends'],
  ] as const)('%s %s is judged', ([method, path, reason]) => {
    const fault = gitRequestFault(method, path)

    if (reason === undefined) expect(fault).toBeUndefined()
    else expect(fault?.reason).toContain(reason)
  })

  it('may be a push in any letter case, and with any method that writes', () => {
    expect(isPush('POST', '/team/app.git/git-receive-pack')).toBe(true)
    expect(isPush('PUT', '/team/app.git/GIT-RECEIVE-PACK/')).toBe(true)
    expect(isPush('POST', '/team/app.git/git-upload-pack')).toBe(false)
  })

  it('is refused as a push if its body is encoded, or has another type or protocol', () => {
    const type = 'application/x-git-receive-pack-request'

    expect(pushEncodingFault({ 'content-type': type })).toBeUndefined()
    expect(pushEncodingFault({ 'content-type': type, 'content-encoding': 'gzip' })?.reason).toContain('gzip')
    expect(pushEncodingFault({ 'content-type': 'text/plain' })?.reason).toContain('text/plain')
    expect(pushEncodingFault({ 'content-type': type, 'git-protocol': 'version=2' })?.reason).toContain(
      'version=2',
    )
  })
})

describe('the report about a push', () => {
  const bands = (report: Buffer, size: number) => {
    const pieces: Buffer[] = []
    for (let at = 0; at < report.length; at += size)
      pieces.push(pktLine(Buffer.concat([Buffer.from([1]), report.subarray(at, at + size)])))
    return Buffer.concat([pktLine('\x02Resolving deltas\n'), ...pieces, Buffer.from('0000')])
  }

  it('names the refs that the server updated, in chunks of any size', () => {
    const report = list('unpack ok\n', `ok ${OWN}\n`, 'ng refs/heads/main protected\n')
    for (const size of [1, 7, 1000]) {
      const read = new PushReport(new Set(['side-band-64k']))
      const bytes = bands(report, size)
      for (let at = 0; at < bytes.length; at += size) read.push(bytes.subarray(at, at + size))

      expect([...read.updated]).toEqual([OWN])
    }
  })

  it('names no ref if it is malformed', () => {
    const read = new PushReport(new Set())
    read.push(Buffer.concat([pktLine(`ok ${OWN}\n`), Buffer.from('zzzz')]))

    expect([...read.updated]).toEqual([])
  })

  it('explains a refusal, with a line for each ref', () => {
    const { list } = readAll(push(command(OWN), command('refs/heads/main')))
    const text = refusedReport(list, { reason: 'because', remedy: 'Do this.' })?.toString('latin1')

    expect(text).toContain('\x02agentweaver: The push is refused: because. Do this.\n')
    expect(text).toContain('ng refs/heads/main refused by Agentweaver')
  })
})
