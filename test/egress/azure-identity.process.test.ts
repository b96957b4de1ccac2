import { readFileSync } from 'node:fs'
import { expect, it, vi } from 'vitest'
import { createAzureIdentity } from '../../runtime/egress/cluster/azure-identity.ts'
import { createLog } from '../../runtime/kit/log.ts'
import { startAzure } from '../credential/azure-rig.ts'
import { startNameProxy } from '../fakes/name-proxy.ts'
import { until } from '../helpers/until.ts'

const UPSTREAM = 'https://aw-models.openai.azure.com/openai/v1'
const MINUTES = 60_000

/** The identity of a proxy, with tokens of one hour and a clock that stands still. */
async function place(tokenSeconds = 3600) {
  const azure = await startAzure({ tokenSeconds })
  const clock = { ms: Date.now() }
  const said: string[] = []
  const identity = createAzureIdentity({
    identity: azure.settings.identity,
    upstream: UPSTREAM,
    now: () => clock.ms,
    log: createLog({ level: 'debug', write: (line) => void said.push(line) }),
  })
  const asked = () => azure.entra.tokenRequests().length
  return { azure, clock, identity, said, asked }
}

/** A failure that is not tried again within one request. */
const DOWN = { status: 503, headers: { 'retry-after': '60' } }

it('asks once for all requests at the same time, and keeps the token', async () => {
  const { identity, asked, clock } = await place()

  const tokens = await Promise.all(Array.from({ length: 20 }, () => identity.fetch()))
  clock.ms += 54 * MINUTES
  tokens.push(await identity.fetch())

  expect(new Set(tokens).size).toBe(1)
  expect(asked()).toBe(1)
})

it('replaces the token five minutes before its end, without a request that waits for it', async () => {
  const { azure, identity, asked, clock } = await place()
  const first = await identity.fetch()
  clock.ms += 55 * MINUTES + 1000
  azure.entra.failNext('silence')

  // Entra does not answer this attempt, and the request goes on with the current token.
  expect(await identity.fetch()).toBe(first)
  await until('the token is replaced', async () => (await identity.fetch()) !== first)

  expect(asked()).toBe(3)
})

it('uses the current token while Entra is down, and none after its end', async () => {
  const { azure, identity, clock, said } = await place()
  const first = await identity.fetch()
  azure.entra.failNext(DOWN, DOWN, DOWN)

  clock.ms += 58 * MINUTES
  expect(await identity.fetch()).toBe(first)
  await until('the failure is logged', () => said.length > 0)
  clock.ms += 1.6 * MINUTES
  await expect(identity.fetch()).rejects.toMatchObject({ code: 'credential_unavailable' })
  await expect(identity.fetch()).rejects.toMatchObject({ code: 'credential_unavailable' })
  clock.ms += MINUTES
  await expect(identity.fetch()).rejects.toMatchObject({ code: 'credential_unavailable' })
  clock.ms += MINUTES

  expect(await identity.fetch()).not.toBe(first)
  // The second of the two refusals did not reach Entra.
  expect(azure.entra.tokenRequests()).toHaveLength(5)
})

it('reads the projected token again for each new token, because the kubelet replaces it', async () => {
  const { azure, identity, clock } = await place()
  await identity.fetch()
  const before = readFileSync(azure.tokenFile, 'utf8')
  await azure.project({ expiresIn: '2h' })
  const after = readFileSync(azure.tokenFile, 'utf8')
  clock.ms += 60 * MINUTES

  await identity.fetch()

  const assertions = azure.entra
    .tokenRequests()
    .map(({ body }) => new URLSearchParams(body).get('client_assertion'))
  expect(before).not.toBe(after)
  expect(assertions).toEqual([before, after])
})

it('drops a token that Entra no longer gives', async () => {
  const { azure, identity, clock, said } = await place()
  await identity.fetch()
  await azure.project({ subject: 'system:serviceaccount:agentweaver-sandboxes:another' })
  clock.ms += 56 * MINUTES

  await identity.fetch()
  await until('the refusal is logged', () => said.length > 0)

  await expect(identity.fetch()).rejects.toMatchObject({ code: 'credential_forbidden' })
})

it('logs neither the projected token nor a token of Entra', async () => {
  const { azure, identity, clock, said } = await place()
  const token = await identity.fetch()
  azure.entra.failNext(DOWN)
  clock.ms += 60 * MINUTES
  await expect(identity.fetch()).rejects.toThrow('the token endpoint responded with 503')

  expect(said.join('')).toContain('got no token of its Azure identity')
  expect(said.join('')).not.toContain(token)
  expect(said.join('')).not.toContain(readFileSync(azure.tokenFile, 'utf8'))
})

it("reaches Entra through the company's proxy", async () => {
  const azure = await startAzure()
  vi.stubEnv('HTTPS_PROXY', undefined)
  const company = await startNameProxy(new Map([['login.microsoftonline.com', azure.entra.port]]))
  const identity = createAzureIdentity({
    identity: azure.settings.identity,
    upstream: UPSTREAM,
    proxy: { host: '127.0.0.1', port: Number(new URL(company.url).port) },
    log: createLog({ level: 'silent', write: () => undefined }),
  })

  expect(await identity.fetch()).toMatch(/^ey/)
  expect(company.asked).toEqual(['login.microsoftonline.com'])
  await company.close()
})
