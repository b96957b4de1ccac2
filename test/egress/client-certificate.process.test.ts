import { execFileSync } from 'node:child_process'
import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { clientFault } from '../../runtime/egress/upstream-tls.ts'
import { createTestAuthority } from '../fakes/test-authority.ts'
import { until } from '../helpers/until.ts'
import { builder, certificateRig, clients, demandingServer } from './client-certificate-rig.ts'
import { exchange, HOST, OTHER } from './proxy-rig.ts'

const DAY_MS = 86_400_000

/** No line of the key is in a text. */
function expectNoKey(text: string) {
  const lines = builder.key.split('\n').filter((line) => line.length > 16 && !line.startsWith('-----'))
  expect(lines.length).toBeGreaterThan(0)
  for (const line of lines) expect(text).not.toContain(line)
}

describe('a host that demands a client certificate', () => {
  it.for(['TLSv1.2', 'TLSv1.3'] as const)('gets the one of its entry, with %s', async (version) => {
    const { port, seen } = await demandingServer({ minVersion: version, maxVersion: version })
    const { send, used, reports } = await certificateRig(port)

    expect(await send()).toMatch(/^HTTP\/1\.1 200 [\s\S]*hello builder/)

    expect(seen.subjects).toEqual(['builder'])
    expect(used()).toEqual([{ credentialId: 'corp', host: HOST, count: 1 }])
    expectNoKey(JSON.stringify(reports))
  })

  it.for([
    // The alert of TLS 1.2 does not say why.
    ['TLSv1.2', /^HTTP\/1\.1 502 .*TLS failed/],
    ['TLSv1.3', /^HTTP\/1\.1 502 .*demands a client certificate/],
  ] as const)('refuses an entry without one, with %s', async ([version, sentence]) => {
    const { port, seen } = await demandingServer({ minVersion: version, maxVersion: version })
    const { send, used } = await certificateRig(port)

    expect(await send('/a', { host: OTHER })).toMatch(sentence)

    expect(seen.requests).toBe(0)
    expect(used()).toEqual([])
    // The control: the same server at the name with the certificate.
    expect(await send()).toContain('hello builder')
  })

  it('gets none if the entry of its name has none, also from a run that has one for another name', async () => {
    const { port, seen } = await demandingServer({ rejectUnauthorized: false })
    const { send } = await certificateRig(port)

    expect(await send()).toContain('hello builder')
    expect(await send('/a', { host: OTHER })).toContain('hello none')
    expect(seen.subjects).toEqual(['builder', 'none'])
  })

  it('sees a separate connection and handshake for each request and each run', async () => {
    const { port, seen } = await demandingServer()
    const { send, used } = await certificateRig(port)

    for (const runId of ['run', 'run', 'second'])
      expect(await send('/a', { runId })).toContain('hello builder')

    expect(seen).toMatchObject({ connections: 3, requests: 3, resumed: 0 })
    expect(used()).toHaveLength(2)
  })

  it('cannot be asked for a path outside of its entry, nor without TLS', async () => {
    const { port, seen } = await demandingServer()
    const requests = [{ methods: ['GET'], paths: ['/a'] }]
    const { send, denied, socketPath } = await certificateRig(port, { entry: { requests, http: 'allow' } })
    const target = `${HOST}:${port}`

    expect(await send('/b')).toMatch(/^HTTP\/1\.1 403 /)
    const plain = `GET http://${target}/a HTTP/1.1\r\nHost: ${target}\r\nConnection: close\r\n\r\n`
    expect(await exchange(socketPath, plain)).toMatch(/^HTTP\/1\.1 403 /)

    expect(denied().map(({ rule }) => rule)).toEqual(['path', 'plain-http'])
    expect(seen.connections).toBe(0)
  })

  it('gets no other credential of a command', async () => {
    const { port, seen } = await demandingServer()
    const { send, denied } = await certificateRig(port)

    for (const headers of ['Authorization: Bearer of-the-agent\r\n', 'Cookie: session=1\r\n'])
      expect(await send('/a', { headers })).toMatch(/^HTTP\/1\.1 403 .*accepts no other credential/)

    expect(denied()).toMatchObject([{ rule: 'credential', host: HOST }])
    expect(seen.requests).toBe(0)
  })

  it('gets no push that the run may not make', async () => {
    const { port, seen } = await demandingServer()
    const { send, denied } = await certificateRig(port)
    const line = `${'0'.repeat(40)} ${'1'.repeat(40)} refs/heads/main\0 report-status`
    const body = `${(line.length + 4).toString(16).padStart(4, '0')}${line}0000`
    const type = 'Content-Type: application/x-git-receive-pack-request\r\n'
    const headers = `${type}Content-Length: ${body.length}\r\n`

    await send('/team/app/git-receive-pack', { method: 'POST', headers, body })

    expect(denied()).toMatchObject([{ rule: 'push', host: HOST }])
    expect(seen.requests).toBe(0)
    // The control: what git asks before.
    expect(await send('/team/app/info/refs?service=git-receive-pack')).toContain('hello builder')
  })

  it('may send a compressed or partial answer, because it never gets the key', async () => {
    const body = gzipSync('packages')
    const { port } = await demandingServer({}, ({ headers }, response) =>
      response.setHeader('content-encoding', 'gzip').setHeader('x-range', String(headers.range)).end(body),
    )
    const { send } = await certificateRig(port)

    const answer = await send('/a', { headers: 'Accept-Encoding: gzip\r\nRange: bytes=0-9\r\n' })

    expect(answer).toContain('bytes=0-9')
    expect(answer).toContain(body.toString('latin1'))
  })

  it('gets no request if its own certificate is not valid', async () => {
    const { port, seen } = await demandingServer(createTestAuthority().serverFor(HOST))
    const { send, denied } = await certificateRig(port)

    expect(await send()).toMatch(/^HTTP\/1\.1 502 /)

    expect(denied().map(({ rule }) => rule)).toEqual(['certificate'])
    expect(seen.requests).toBe(0)
  })

  it('refuses a certificate of another authority', async () => {
    const { port, seen } = await demandingServer()
    const { send } = await certificateRig(port, {
      fetch: async () => createTestAuthority().clientFor('stranger').pem,
    })

    expect(await send()).toMatch(/^HTTP\/1\.1 502 /)
    expect(seen.requests).toBe(0)
  })
})

it.for([
  ['ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED', 'demands a client certificate'],
  ['ERR_SSL_TLSV1_ALERT_UNKNOWN_CA', 'does not accept the client certificate'],
  ['ERR_SSL_SSL/TLS_ALERT_CERTIFICATE_EXPIRED', 'does not accept the client certificate'],
  ['ERR_SSL_SSL/TLS_ALERT_HANDSHAKE_FAILURE', undefined],
  ['ECONNRESET', undefined],
] as const)('the alert %s is explained', ([code, reason]) => {
  const found = clientFault(Object.assign(new Error('alert'), { code }))

  if (reason === undefined) expect(found).toBeUndefined()
  else expect(found).toContain(reason)
})

const expired = () => clients.clientFor('late', { from: new Date(Date.now() - 40 * DAY_MS) })
const early = () => clients.clientFor('early', { from: new Date(Date.now() + DAY_MS) })

/** A certificate and a key that Node's TLS finds too weak. */
const weak = () => {
  const made = [
    'req',
    '-x509',
    '-newkey',
    'rsa:1024',
    '-nodes',
    '-subj',
    '/CN=weak',
    '-keyout',
    '-',
    '-out',
    '-',
  ]
  return execFileSync('openssl', made, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
}

describe('a client certificate that cannot be used', () => {
  it.for([
    ['has expired', () => expired().pem, 'has expired at'],
    ['is not valid yet', () => early().pem, 'is valid only from'],
    ['has the key of another one', () => `${builder.certificate}${expired().key}`, 'does not fit'],
    ['has no certificate', () => builder.key, 'no certificate'],
    ['is too weak for TLS', weak, 'TLS does not accept it'],
    [
      'cannot be read',
      () => Promise.reject(new Error('the log of the API has the reason')),
      'the credential corp cannot be read: the log of the API has the reason',
    ],
  ] as const)('and %s is a refusal, and nothing connects to the host', async ([_name, value, reason]) => {
    const { port, seen } = await demandingServer({ rejectUnauthorized: false })
    const { send, denied, used, reports } = await certificateRig(port, { fetch: async () => value() })

    const answer = await send()

    expect(answer).toMatch(/^HTTP\/1\.1 403 /)
    expect(answer).toContain('corp')
    expect(answer).toContain(reason)
    expect(denied()).toMatchObject([{ rule: 'credential', host: HOST, path: '/a' }])
    expect(seen.connections).toBe(0)
    expect(used()).toEqual([])
    expectNoKey(`${answer}${JSON.stringify(reports)}`)
  })

  it('is not presented for a run that ends while the value is read', async () => {
    const value = Promise.withResolvers<string>()
    const asked = Promise.withResolvers<void>()
    const { port, seen } = await demandingServer()
    const { send, apply, used } = await certificateRig(port, {
      fetch: ({ runId }) => {
        asked.resolve()
        return runId === 'run' ? value.promise : Promise.resolve(builder.pem)
      },
    })
    const answer = send()
    await asked.promise

    await apply('second')
    value.resolve(builder.pem)
    await answer

    await until('the connection has ended', () => seen.connections === 1)
    // The control comes later, so the first one would have been seen before it.
    expect(await send('/a', { runId: 'second' })).toContain('hello builder')
    expect(seen.subjects).toEqual(['builder'])
    expect(used()).toHaveLength(1)
  })
})
