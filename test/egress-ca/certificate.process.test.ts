import { execFileSync } from 'node:child_process'
import { createPublicKey, generateKeyPairSync, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect, createServer } from 'node:tls'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type CertificateUse, issue, type Signer } from '../../runtime/egress-ca/certificate.ts'
import { IntermediateAuthorities } from '../../runtime/egress-ca/intermediate.ts'
import { deriveRoot } from '../../runtime/egress-ca/root.ts'

const DAY_MS = 86_400_000
const HOST = 'registry.npmjs.org'
const root = deriveRoot(new Uint8Array(32).fill(7))
const pair = () => generateKeyPairSync('ec', { namedCurve: 'P-256' })

interface Changes {
  readonly signer?: Signer
  readonly use?: CertificateUse
  readonly from?: number
  readonly to?: number
}

/** A certificate and its key, valid now unless the changes say otherwise. */
function issued(subject: string, { from = -DAY_MS, to = DAY_MS, signer = root, use }: Changes = {}) {
  const { publicKey, privateKey } = pair()
  const certificate = issue({
    subject,
    publicKey,
    signer,
    use: use ?? { kind: 'server', names: [HOST] },
    from: new Date(Date.now() + from),
    to: new Date(Date.now() + to),
  })
  return { name: subject, key: privateKey, certificate }
}

const intermediate = (names: readonly string[], changes: Changes = {}) =>
  issued('intermediate', { use: { kind: 'intermediate', names }, ...changes })

type Chain = readonly { readonly certificate: string; readonly key: Signer['key'] }[]

/** The verdict of openssl on a chain, leaf first, with every check that it has. */
function opensslVerdict(chain: Chain, ...options: string[]): string {
  const folder = mkdtempSync(join(tmpdir(), 'aw-chain-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const [leaf, ...others] = chain.map(({ certificate }) => certificate)
  const files = { root: root.certificate, others: others.join(''), leaf: String(leaf) }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  const path = (name: string) => join(folder, name)
  const trust = ['-x509_strict', '-CAfile', path('root'), '-untrusted', path('others')]
  try {
    return execFileSync('openssl', ['verify', ...trust, ...options, path('leaf')], {
      stdio: 'pipe',
    }).toString()
  } catch (error) {
    return String((error as { stderr: Buffer }).stderr)
  }
}

/** The verdict of a TLS connection of Node that trusts only the root. */
async function nodeVerdict(chain: Chain, host: string): Promise<string> {
  const [leaf] = chain
  const cert = chain.map(({ certificate }) => certificate).join('')
  const server = createServer({ cert, key: leaf?.key.export({ type: 'pkcs8', format: 'pem' }) }, (socket) =>
    socket.end(),
  )
  server.on('tlsClientError', () => undefined)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  const client = connect({ port, host: '127.0.0.1', servername: host, ca: root.certificate })
  const failed = new Promise<string>((resolve) =>
    client.once('error', (error: Error) => resolve(error.message)),
  )
  const verdict = await Promise.race([
    once(client, 'secureConnect').then(
      () => 'accepted',
      () => failed,
    ),
    failed,
  ])
  client.destroy()
  return verdict
}

describe('a chain of root, intermediate and server', () => {
  const authority = intermediate([HOST, '*.pypi.org'])
  const leaf = (names: readonly string[], changes: Changes = {}) =>
    issued('leaf', { signer: authority, use: { kind: 'server', names }, ...changes })

  it('is accepted by openssl in strict mode and by Node', async () => {
    const chain = [leaf([HOST]), authority]

    expect(opensslVerdict(chain, '-verify_hostname', HOST, '-purpose', 'sslserver')).toMatch(/: OK\n$/)
    expect(await nodeVerdict(chain, HOST)).toBe('accepted')
  })

  it('is accepted for a wildcard', async () => {
    const chain = [leaf(['*.pypi.org']), authority]

    expect(opensslVerdict(chain, '-verify_hostname', 'test.pypi.org')).toMatch(/: OK\n$/)
    expect(await nodeVerdict(chain, 'test.pypi.org')).toBe('accepted')
  })

  it.each([
    ['another name', ['evil.example.org'], 'evil.example.org'],
    ['another name next to a listed one', [HOST, 'evil.example.org'], HOST],
    ['the parent of a listed name', ['npmjs.org'], 'npmjs.org'],
    ['a name that ends like a listed one', [`evil-${HOST}`], `evil-${HOST}`],
    ['a wildcard above a listed name', ['*.npmjs.org'], HOST],
  ])('is refused for %s', async (_what, names, host) => {
    const chain = [leaf(names), authority]

    expect(opensslVerdict(chain)).toContain('permitted subtree violation')
    expect(await nodeVerdict(chain, host)).toBe('permitted subtree violation')
  })

  it('is refused for a server that another server signed', async () => {
    const first = leaf([HOST])
    const chain = [leaf([HOST], { signer: first }), first, authority]

    expect(opensslVerdict(chain)).toMatch(/invalid CA certificate|path length constraint exceeded/)
    expect(await nodeVerdict(chain, HOST)).toBe('key usage does not include certificate signing')
  })

  it('is refused for an authority that an intermediate signed', async () => {
    const below = issued('below', { signer: authority, use: { kind: 'intermediate', names: [HOST] } })
    const chain = [leaf([HOST], { signer: below }), below, authority]

    expect(opensslVerdict(chain)).toContain('path length constraint exceeded')
    expect(await nodeVerdict(chain, HOST)).toBe('path length constraint exceeded')
  })

  it.each([
    ['has expired', { from: -2 * DAY_MS, to: -DAY_MS }, 'certificate has expired'],
    ['is not valid yet', { from: DAY_MS, to: 2 * DAY_MS }, 'certificate is not yet valid'],
  ])('is refused if the intermediate %s', async (_what, times, reason) => {
    const other = intermediate([HOST], times)
    const chain = [leaf([HOST], { signer: other }), other]

    expect(opensslVerdict(chain)).toContain(reason)
    expect(await nodeVerdict(chain, HOST)).toBe(reason)
  })

  it('is refused if another root signed it', async () => {
    const foreign = deriveRoot(new Uint8Array(32).fill(8))
    const other = intermediate([HOST], { signer: foreign })
    const chain = [leaf([HOST], { signer: other }), other]

    expect(opensslVerdict(chain)).toMatch(/unable to get local issuer certificate/)
    expect(await nodeVerdict(chain, HOST)).not.toBe('accepted')
  })

  it('cannot be used by clients, and names no address', () => {
    const chain = [leaf([HOST]), authority]
    const { ca, subjectAltName, infoAccess } = new X509Certificate(chain[0]?.certificate as string)

    expect(opensslVerdict(chain, '-purpose', 'sslclient')).toMatch(
      /unsuitable|unsupported certificate purpose/,
    )
    expect({ ca, subjectAltName, infoAccess }).toEqual({
      ca: false,
      subjectAltName: `DNS:${HOST}`,
      infoAccess: undefined,
    })
  })

  it('excludes all addresses, in the form that openssl prints', () => {
    const text = execFileSync('openssl', ['x509', '-noout', '-ext', 'nameConstraints,basicConstraints'], {
      input: authority.certificate,
    }).toString()

    expect(text.replaceAll(/\s+/g, ' ')).toContain(
      `X509v3 Name Constraints: critical Permitted: DNS:${HOST} DNS:pypi.org Excluded: IP:0.0.0.0/0.0.0.0 IP:0:0:0:0:0:0:0:0/0:0:0:0:0:0:0:0`,
    )
    expect(text).toMatch(/Basic Constraints: critical\s+CA:TRUE, pathlen:0/)
  })

  it('is refused for an address, which the constraints exclude', () => {
    const folder = mkdtempSync(join(tmpdir(), 'aw-address-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const file = (name: string, text: string) => {
      writeFileSync(join(folder, name), text)
      return join(folder, name)
    }
    const { privateKey } = pair()
    const signing = [
      '-CA',
      file('ca.crt', authority.certificate),
      '-CAkey',
      file('ca.key', pem(authority.key)),
    ]
    const made = execFileSync(
      'openssl',
      [
        'req',
        '-x509',
        '-new',
        '-subj',
        '/CN=leaf',
        '-days',
        '1',
        '-addext',
        'subjectAltName=IP:10.0.0.1',
        '-key',
        file('leaf.key', pem(privateKey)),
        ...signing,
      ],
      { stdio: 'pipe' },
    ).toString()

    expect(opensslVerdict([{ certificate: made, key: privateKey }, authority])).toContain(
      'excluded subtree violation',
    )
  })
})

const pem = (key: Signer['key']) => String(key.export({ type: 'pkcs8', format: 'pem' }))

describe('the root', () => {
  it('is the same for the same secret, except for its signature', () => {
    const again = deriveRoot(new Uint8Array(32).fill(7))
    const [first, second] = [root, again].map(({ certificate }) => new X509Certificate(certificate))

    expect(second?.publicKey.equals(first?.publicKey as never)).toBe(true)
    expect(second?.verify(first?.publicKey as never)).toBe(true)
    for (const field of ['subject', 'issuer', 'serialNumber', 'validFrom', 'validTo'] as const)
      expect(second?.[field]).toBe(first?.[field])
  })

  it('has a fixed key for a fixed secret, because replicas of other versions must agree', () => {
    const { x } = createPublicKey(root.key).export({ format: 'jwk' })

    expect(x).toBe('4WB9i-T1bi9JebfnAZPIwJ5OfNAUQMymZdT7OzTIFaY')
  })

  it('differs for another secret', () => {
    const other = deriveRoot(new Uint8Array(32).fill(8))

    expect(other.key.equals(root.key)).toBe(false)
  })
})

describe('the intermediate authorities', () => {
  const HOUR_MS = 3_600_000

  function rig() {
    let now = Date.now()
    const authorities = new IntermediateAuthorities(root, () => now)
    const wait = (hours: number) => {
      now += hours * HOUR_MS
    }
    return { authorities, wait }
  }

  it('are the same for the same hosts in any order, until they are 12 hours old', () => {
    const { authorities, wait } = rig()
    const first = authorities.for(['b.example.com', HOST])
    wait(11)
    const same = authorities.for([HOST, 'b.example.com', HOST])
    wait(2)
    const renewed = authorities.for([HOST, 'b.example.com'])

    expect(same).toBe(first)
    expect(renewed.digest).not.toBe(first.digest)
    expect(renewed.key).not.toBe(first.key)
  })

  it('are valid for 24 hours, and differ for other hosts', () => {
    const { authorities } = rig()
    const one = authorities.for([HOST])
    const two = authorities.for([HOST, 'b.example.com'])
    const { validFrom, validTo } = new X509Certificate(one.certificate)

    expect((Date.parse(validTo) - Date.parse(validFrom)) / HOUR_MS).toBe(25)
    expect(two.digest).not.toBe(one.digest)
  })

  it('are never issued without a host, which would permit every name', () => {
    const { authorities } = rig()

    expect(() => authorities.for([])).toThrow('at least one name')
  })
})
