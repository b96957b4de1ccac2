import { createPublicKey, generateKeyPairSync } from 'node:crypto'
import { expect, it } from 'vitest'
import { until } from '../../helpers/until.ts'
import { nowSeconds } from './forge.ts'
import { configure, fresh, type Subject, stateOf } from './host.ts'

/** A ticket from a signer whose clock is off by `offset`. */
const signedAt = (offset: number) => {
  const iat = nowSeconds() + offset
  return { claims: { iat, exp: iat + 60 } }
}

const ROTATION_MS = 120_000

export function clockCases(subject: Subject): void {
  it.each([
    ['a minute behind', -58],
    ['a minute ahead', 58],
    ['near the end of its life, and the leeway', -100],
  ])('accepts a ticket from a signer whose clock is %s', async (_what, offset) => {
    const host = await fresh(subject)

    const { status } = await configure(subject, host, { forgery: signedAt(offset) })

    expect(status).toBe(200)
  })

  it('rejects a ticket past its expiry and leeway, and one issued too far in the future', async () => {
    const host = await fresh(subject)

    const old = await configure(subject, host, { forgery: signedAt(-125) })
    const early = await configure(subject, host, { forgery: signedAt(70) })

    expect([old.status, early.status]).toEqual([401, 401])
    expect(await stateOf(host)).toBe('standby')
  })

  it('loads a new key and drops an old one without a restart', async ({ skip }) => {
    const keys = subject.keys()
    const { publish } = keys
    if (!publish) return skip('the keys of this AgentHost may not be changed')
    const host = await fresh(subject)
    const next = generateKeyPairSync('ed25519')
    const jwk = (key: typeof next.privateKey, kid: string) => ({
      ...createPublicKey(key).export({ format: 'jwk' }),
      kid,
      alg: 'EdDSA',
      use: 'sig',
    })
    const attempt = { forgery: { key: next.privateKey, header: { kid: 'next' } }, body: '{}' }
    const before = await configure(subject, host, attempt)

    await publish([jwk(keys.privateKey, keys.kid), jwk(next.privateKey, 'next')])
    const hasBoth = async () => (await configure(subject, host, attempt)).status === 400
    await until('the new key counts', hasBoth, ROTATION_MS)
    const old = await configure(subject, host, { body: '{}' })
    await publish([jwk(next.privateKey, 'next')])
    const isForgotten = async () => (await configure(subject, host, { body: '{}' })).status === 401
    await until('the old key is forgotten', isForgotten, ROTATION_MS)
    await publish([jwk(keys.privateKey, keys.kid)])

    expect([before.status, old.status]).toEqual([401, 400])
  })
}
