import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose'
import { beforeAll, describe, expect, it } from 'vitest'
import { IDENTITY_AUDIENCE } from '../../../contracts/configure.ts'
import type { NewConnection } from '../../../runtime/agent-host-client/connection-guard.ts'
import { followChain } from '../../../runtime/sandboxes/kubernetes/identity/identity-chain.ts'
import { loadIssuerKeys } from '../../../runtime/sandboxes/kubernetes/identity/issuer-keys.ts'
import { createPodGuard } from '../../../runtime/sandboxes/kubernetes/identity/pod-guard.ts'
import { aChain, tamper } from './chain-objects.ts'
import { startKubeRig } from './kube-rig.ts'

const ISSUER = 'https://kubernetes.default.svc.cluster.local'
const KEYS_PATH = '/openid/v1/jwks'

type Pair = Awaited<ReturnType<typeof generateKeyPair>>
let cluster: Pair
let stranger: Pair
beforeAll(async () => {
  ;[cluster, stranger] = await Promise.all([generateKeyPair('RS256'), generateKeyPair('RS256')])
})

const publicKeys = async (pair: Pair, kid: string) => ({
  keys: [{ ...(await exportJWK(pair.publicKey)), kid, alg: 'RS256', use: 'sig' }],
})

/**
 * Starts a cluster with loaded issuer keys and a guard for a pinned pod. `answering` simulates the response of a
 * listener on the pod's address.
 */
async function startGuard({ minRefreshMs = 10_000, now = new Date() } = {}) {
  const rig = await startKubeRig()
  rig.fake.documents.set('/.well-known/openid-configuration', { issuer: ISSUER })
  rig.fake.documents.set(KEYS_PATH, await publicKeys(cluster, 'k1'))
  const chain = aChain()
  const pinned = followChain(chain.expected, tamper(chain, {}))
  const signal = AbortSignal.timeout(60_000)
  const keys = await loadIssuerKeys({ api: rig.api, signal, clock: () => now, minRefreshMs })
  const guard = createPodGuard(keys, pinned)
  const own = {
    'kubernetes.io': {
      namespace: pinned.namespace,
      pod: { name: pinned.podName, uid: pinned.podUid },
      serviceaccount: { name: 'agent-host', uid: 'x' },
    },
  }
  const answering = (status: number, body: string): NewConnection => ({
    remoteAddress: pinned.podIp,
    remotePort: 8088,
    get: async () => ({ status, body }),
  })
  return {
    rig,
    own,
    now,
    asks: () => rig.fake.log.filter(({ plural }) => plural === KEYS_PATH).length,
    answer: (status: number, body: string) => guard.verify(answering(status, body)),
    show: (token: string) => guard.verify(answering(200, JSON.stringify({ token }))),
  }
}

type Signing = {
  claims?: object
  key?: Pair
  kid?: string
  audience?: string | string[]
  issuer?: string
  at?: Date
  ageSeconds?: number
  sub?: string
}

/** Signs a pod token like the API server. `over` can change every part. */
async function sign(own: object, over: Signing = {}): Promise<string> {
  const { key = cluster, kid = 'k1', audience = IDENTITY_AUDIENCE, issuer = ISSUER, ageSeconds = 5 } = over
  const issuedAt = Math.floor((over.at ?? new Date()).getTime() / 1000) - ageSeconds
  const payload = { ...own, ...over.claims } as JWTPayload
  return new SignJWT(payload)
    .setProtectedHeader({ alg: 'RS256', kid })
    .setIssuer(issuer)
    .setAudience(audience)
    .setSubject(over.sub ?? 'system:serviceaccount:sandboxes:agent-host')
    .setIssuedAt(issuedAt)
    .setExpirationTime(issuedAt + 600)
    .sign(key.privateKey)
}

const part = (own: object, change: object) => ({
  'kubernetes.io': { ...(own as { 'kubernetes.io': object })['kubernetes.io'], ...change },
})

describe('the guard of a pod’s address', () => {
  it('lets the pinned pod pass, without asking the API server anything', async () => {
    const { own, show, asks, rig } = await startGuard()
    const before = rig.fake.log.length

    await show(await sign(own))

    expect(rig.fake.log.length).toBe(before)
    expect(asks()).toBe(1)
  })

  it.each<[string, RegExp, (own: object) => Signing]>([
    [
      'another pod of the pool',
      /another pod/,
      (own) => ({ claims: part(own, { pod: { name: 'pool-zzzzz', uid: 'y' } }) }),
    ],
    [
      'a pod of the same name with another UID',
      /another pod/,
      (own) => ({ claims: part(own, { pod: { name: 'pool-abcde', uid: 'y' } }) }),
    ],
    [
      'a pod of another namespace',
      /another namespace/,
      (own) => ({ claims: part(own, { namespace: 'elsewhere' }) }),
    ],
    [
      'a pod with another service account',
      /service account/,
      (own) => ({ claims: part(own, { serviceaccount: { name: 'default' } }) }),
    ],
    ['a token that is bound to no pod', /not accepted/, (own) => ({ claims: part(own, { pod: undefined }) })],
    [
      'a token whose subject is another account',
      /contradicts/,
      () => ({ sub: 'system:serviceaccount:sandboxes:default' }),
    ],
    ['a token for the API server', /not accepted/, () => ({ audience: 'https://kubernetes.default.svc' })],
    [
      'a token with more than one audience',
      /more than one audience/,
      () => ({ audience: [IDENTITY_AUDIENCE, 'vault'] }),
    ],
    ['a token of another cluster', /not accepted/, () => ({ issuer: 'https://evil.example' })],
    ['a token that has expired', /not accepted/, () => ({ ageSeconds: 700 })],
    ['a token that a stranger signed under the cluster’s key id', /not accepted/, () => ({ key: stranger })],
  ])('refuses %s', async (_what, words, signing) => {
    const { own, show } = await startGuard()

    const refused = show(await sign(own, signing(own)))

    await expect(refused).rejects.toThrow(words)
    await expect(refused).rejects.toMatchObject({ code: 'identity_mismatch' })
  })

  it('refuses an unsigned token and one signed with the public key as a secret', async () => {
    const { own, show } = await startGuard()
    const [, body] = (await sign(own)).split('.')
    const header = (fields: object) => Buffer.from(JSON.stringify(fields)).toString('base64url')
    const { keys } = await publicKeys(cluster, 'k1')
    const secret = Buffer.from(JSON.stringify(keys[0]))
    const hmac = await new SignJWT(own as JWTPayload)
      .setProtectedHeader({ alg: 'HS256', kid: 'k1' })
      .sign(secret)

    await expect(show(`${header({ alg: 'none' })}.${body}.`)).rejects.toMatchObject({
      code: 'identity_mismatch',
    })
    await expect(show(hmac)).rejects.toMatchObject({ code: 'identity_mismatch' })
  })

  it.each([
    ['nothing', 200, ''],
    ['no JSON', 200, '<html>'],
    ['JSON without a token', 200, '{"hello":1}'],
    ['an invalid token', 200, '{"token":"x"}'],
    ['an error', 503, '{"token":"x"}'],
  ])('rejects a listener that returns %s', async (_what, status, body) => {
    const { answer } = await startGuard()

    await expect(answer(status, body)).rejects.toMatchObject({ code: 'identity_mismatch' })
  })

  it('never says the token that it refuses', async () => {
    const { own, show } = await startGuard()
    const token = await sign(own, { audience: 'vault' })

    const error = await show(token).then(
      () => undefined,
      (refusal: unknown) => refusal,
    )

    expect(String(error)).not.toContain(token.slice(-30))
  })

  it('accepts a clock difference of at most one minute', async () => {
    const { own, show, now } = await startGuard()
    const at = (seconds: number) => sign(own, { at: new Date(now.getTime() + seconds * 1000), ageSeconds: 0 })

    await show(await at(-650))
    await expect(show(await at(-670))).rejects.toMatchObject({ code: 'identity_mismatch' })
  })
})

describe('the keys of the cluster’s issuer', () => {
  it('are read again for a key that is not known, as after a rotation', async () => {
    const { rig, own, show, asks } = await startGuard({ minRefreshMs: 0 })
    rig.fake.documents.set(KEYS_PATH, await publicKeys(stranger, 'k2'))

    await show(await sign(own, { key: stranger, kid: 'k2' }))

    expect(asks()).toBe(2)
  })

  it('are not fetched for every unknown key id', async () => {
    const { own, show, asks } = await startGuard()

    const refusals = await Promise.allSettled(
      Array.from({ length: 20 }, async (_, i) => show(await sign(own, { key: stranger, kid: `evil-${i}` }))),
    )

    expect(refusals.every(({ status }) => status === 'rejected')).toBe(true)
    expect(asks()).toBe(1)
  })

  it('are read once for all that wait for them', async () => {
    const { rig, own, show, asks } = await startGuard({ minRefreshMs: 0 })
    rig.fake.documents.set(KEYS_PATH, await publicKeys(stranger, 'k2'))
    const token = await sign(own, { key: stranger, kid: 'k2' })

    await Promise.all([show(token), show(token), show(token)])

    expect(asks()).toBe(2)
  })
})
