import { createPublicKey, generateKeyPairSync, type KeyObject, randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import { encode, type Forgery, nowSeconds, sha256 } from './forge.ts'
import { configure, type Subject, shared, stateOf } from './host.ts'

const stranger = generateKeyPairSync('ed25519').privateKey
const ecKey = generateKeyPairSync('ec', { namedCurve: 'P-256' })

/** Every form in which the public key could be used as an HMAC secret. */
function encodingsOf(privateKey: KeyObject, kid: string): [string, Uint8Array | string][] {
  const key = createPublicKey(privateKey)
  const jwk = key.export({ format: 'jwk' })
  const pem = String(key.export({ type: 'spki', format: 'pem' }))
  const raw = Buffer.from(String(jwk.x), 'base64url')
  return [
    ['its bytes', raw],
    ['its base64url', String(jwk.x)],
    ['its base64', raw.toString('base64')],
    ['its hex digits', raw.toString('hex')],
    ['its DER', key.export({ type: 'spki', format: 'der' })],
    ['its PEM', pem],
    ['its PEM without the last line break', pem.trimEnd()],
    ['its JWK', JSON.stringify(jwk)],
    ['the JWK of the key set', JSON.stringify({ ...jwk, kid, alg: 'EdDSA', use: 'sig' })],
    ['nothing', ''],
  ]
}

/**
 * The order of the Ed25519 group. Adding it to a signature's S gives a second valid signature for lenient
 * verifiers.
 */
const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n

function malleated(signature: string): string {
  const bytes = Buffer.from(signature, 'base64url')
  let scalar = ORDER
  for (let i = 63; i >= 32; i--) scalar += BigInt(bytes[i] ?? 0) << BigInt(8 * (i - 32))
  for (let i = 32; i < 64; i++) bytes[i] = Number((scalar >> BigInt(8 * (i - 32))) & 0xffn)
  return bytes.toString('base64url')
}

const flipped = (text: string, at: number) =>
  text.slice(0, at) + (text[at] === 'A' ? 'B' : 'A') + text.slice(at + 1)

const NONES = ['none', 'None', 'NONE', 'nOnE', '']

function forgeriesOf({ keys }: Subject): [string, Forgery][] {
  const { privateKey, kid } = keys()
  const jwkOf = (key: KeyObject) => createPublicKey(key).export({ format: 'jwk' })
  return [
    ['for another instance', { claims: { aud: randomUUID() } }],
    ['for several instances', { claims: { aud: ['other', 'another'] } }],
    ['for no instance', { claims: { aud: undefined } }],
    ['for another run', { claims: { sub: 'run-2' } }],
    ['for no run', { claims: { sub: undefined } }],
    ['for another body', { claims: { body_sha256: sha256('another body') } }],
    ['for no body', { claims: { body_sha256: undefined } }],
    ['for the empty body', { claims: { body_sha256: sha256('') } }],
    ['whose digest is no text', { claims: { body_sha256: [sha256('x')] } }],
    ['that never ends', { claims: { exp: undefined } }],
    ['with too long a lifetime', { claims: { exp: nowSeconds() + 3600 } }],
    ['whose expiry is text', { claims: { exp: String(nowSeconds() + 60) } }],
    ['without a timestamp', { claims: { iat: undefined } }],
    ['that is not valid yet', { claims: { nbf: nowSeconds() + 600 } }],
    ['under another key with the same kid', { key: stranger }],
    ['under an unknown kid', { header: { kid: 'k9' } }],
    ['under a path for a kid', { header: { kid: '../../../../dev/null' } }],
    ['under a list of kids', { header: { kid: [kid] } }],
    ['under a kid with a NUL', { header: { kid: `${kid}\0` } }],
    ['under the kid "__proto__"', { header: { kid: '__proto__' } }],
    ['that contains its own key', { key: stranger, header: { jwk: jwkOf(stranger) } }],
    [
      'that contains its own key and no kid',
      { key: stranger, header: { jwk: jwkOf(stranger), kid: undefined } },
    ],
    ['that names a URL for its key', { key: stranger, header: { jku: 'https://evil.example/jwks.json' } }],
    ['that names a URL for its certificate', { key: stranger, header: { x5u: 'https://evil.example/x' } }],
    ['with an unknown critical header', { header: { crit: ['exp', 'x'], x: 1 } }],
    ['whose payload is declared as not base64url', { header: { b64: false, crit: ['b64'] } }],
    ['that declares ES256', { header: { alg: 'ES256' } }],
    ['that declares RS256', { header: { alg: 'RS256' } }],
    ['without an algorithm', { header: { alg: undefined } }],
    ['whose algorithm is a list', { header: { alg: ['EdDSA'] } }],
    ['signed on another curve', { header: { alg: 'ES256' }, key: ecKey.privateKey }],
    ['without a signature', { rewrite: (h, c) => `${h}.${c}.` }],
    ['of two parts', { rewrite: (h, c) => `${h}.${c}` }],
    ['of four parts', { rewrite: (h, c, s) => `${h}.${c}.${s}.${s}` }],
    ['of five parts, as if encrypted', { rewrite: (h, c, s) => `${h}.${c}.${s}.${s}.${s}` }],
    ['with a changed header', { rewrite: (_h, c, s) => `${encode({ alg: 'EdDSA', kid, x: 1 })}.${c}.${s}` }],
    ['with a changed claim', { rewrite: (h, c, s) => `${h}.${flipped(c, c.length - 8)}.${s}` }],
    ['with a changed signature', { rewrite: (h, c, s) => `${h}.${c}.${flipped(s, 10)}` }],
    ['with a truncated signature', { rewrite: (h, c, s) => `${h}.${c}.${s.slice(0, -4)}` }],
    ['with a malleated signature', { rewrite: (h, c, s) => `${h}.${c}.${malleated(s)}` }],
    ['with a signature of zeros', { rewrite: (h, c) => `${h}.${c}.${'A'.repeat(86)}` }],
    ['that is empty', { rewrite: () => '' }],
    ['that is not a JWT', { rewrite: () => 'nonsense' }],
    ...NONES.flatMap((alg): [string, Forgery][] => [
      [`that says "${alg}" and has no signature`, { header: { alg }, rewrite: (h, c) => `${h}.${c}.` }],
      [`that says "${alg}" and keeps its signature`, { header: { alg } }],
    ]),
    ...encodingsOf(privateKey, kid).flatMap(([what, secret]) =>
      (['sha256', 'sha384', 'sha512'] as const).map((hash): [string, Forgery] => [
        `with an HMAC (${hash}) under ${what} as its secret`,
        { header: { alg: `HS${hash.slice(3)}` }, hmac: { hash, secret } },
      ]),
    ),
  ]
}

/** All forged tickets go to one AgentHost. It must stay unchanged, and accept the valid ticket at the end. */
export function ticketCases(subject: Subject): void {
  const host = shared(subject)

  it('rejects every forged ticket with 401, and stays in standby', async () => {
    const forgeries = forgeriesOf(subject)
    expect(forgeries.length).toBeGreaterThan(75)
    for (const [what, forgery] of forgeries) {
      const { status, json, headers } = await configure(subject, host(), { forgery })

      expect(status, `a ticket ${what}`).toBe(401)
      expect(json, `a ticket ${what}`).toMatchObject({ code: 'unauthenticated' })
      expect(headers.get('www-authenticate'), `a ticket ${what}`).toBe('Bearer')
    }
    expect(await stateOf(host())).toBe('standby')
  })

  it('checks the ticket before it reads the body', async () => {
    const unsigned = await configure(subject, host(), { ticket: 'nonsense', body: '{ not json' })
    const signed = await configure(subject, host(), { body: '{ not json' })

    expect([unsigned.status, signed.status]).toEqual([401, 400])
    expect(await stateOf(host())).toBe('standby')
  })

  it('rejects a ticket with additional audiences', async () => {
    const aud = [host().instanceId, 'b2f3ed54-6a0c-4e0b-9d0f-0f0f0f0f0f0f']

    const { status } = await configure(subject, host(), { forgery: { claims: { aud } } })

    expect(status).toBe(401)
  })

  it('rejects a valid ticket of another run for a body that names this run', async () => {
    const { status } = await configure(subject, host(), { forgery: { claims: { sub: 'run-7' } } })

    expect(status).toBe(401)
    expect(await stateOf(host())).toBe('standby')
  })

  it('accepts the valid ticket after all of these', async () => {
    const { status, json } = await configure(subject, host())

    expect([status, json]).toEqual([200, { configured: true, runId: 'run-1' }])
  })

  it('rejects a forged ticket with 401 after it was configured', async () => {
    const forged = await configure(subject, host(), { forgery: { key: stranger } })
    const genuine = await configure(subject, host())

    expect([forged.status, genuine.status]).toEqual([401, 409])
  })
}
