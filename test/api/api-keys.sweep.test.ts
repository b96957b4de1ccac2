import { describe, expect, test } from 'vitest'
import type { ApiKey, ApiRole, CreateApiKeyInput, CreatedApiKey } from '../../contracts/api-keys.ts'
import { generateApiKey } from '../../runtime/api/http/api-key.ts'
import { until } from '../helpers/until.ts'
import { bearer, type Harness, RUN, startApp } from './harness.ts'

const create = async (
  { app }: Pick<Harness, 'app'>,
  key: string,
  { idempotencyKey, ...body }: CreateApiKeyInput & { idempotencyKey?: string },
) => {
  const headers = {
    ...bearer(key),
    ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
  }
  const answer = await app.inject({ method: 'POST', url: '/api/keys', headers, body })
  return { status: answer.statusCode, body: answer.json() as CreatedApiKey & { detail: string } }
}
const revoke = async ({ app }: Pick<Harness, 'app'>, key: string, id: string) => {
  const answer = await app.inject({ method: 'DELETE', url: `/api/keys/${id}`, headers: bearer(key) })
  return { status: answer.statusCode, body: answer.json() }
}
const list = async ({ app }: Pick<Harness, 'app'>, key: string): Promise<ApiKey[]> =>
  (await app.inject({ url: '/api/keys', headers: bearer(key) })).json().items
const statusOf = async ({ app }: Pick<Harness, 'app'>, key: string) =>
  (await app.inject({ url: '/api/runs', headers: bearer(key) })).statusCode

/** A key with a role, and an owner who has no other key. */
const withRole = ({ store }: Pick<Harness, 'store'>, role: ApiRole, owner = `${role}-1`) =>
  store.addKey(generateApiKey(), owner, role)

describe('a created key', () => {
  test('works at once, is shown once and is stored as a hash', async () => {
    const harness = startApp()
    const { status, body } = await create(harness, harness.keys.ada, { name: 'nightly build' })

    expect(status).toBe(201)
    expect(body).toMatchObject({
      name: 'nightly build',
      owner: 'ada',
      role: 'user',
      state: 'active',
      createdBy: 'ada',
      createdAt: '2026-01-01T00:00:00.000Z',
      expiresAt: '2026-04-01T00:00:00.000Z',
    })
    expect(body.key).toMatch(/^awk_[\w-]{43}$/)
    expect(await statusOf(harness, body.key)).toBe(200)
    const stored = JSON.stringify([...harness.store.keys.values(), ...harness.store.idempotency.values()])
    const listed = JSON.stringify(await list(harness, harness.keys.ada))
    expect(listed).toContain(body.id)
    for (const text of [stored, listed, harness.lines.join('')]) expect(text).not.toContain(body.key)
    expect(listed).not.toContain([...harness.store.keys.keys()].at(-1))
  })

  test('is not shown again for the same idempotency key, and no second one is created', async () => {
    const harness = startApp()
    const { ada } = harness.keys
    const first = await create(harness, ada, { name: 'ci', idempotencyKey: 'k1' })
    const before = harness.store.keys.size

    const second = await create(harness, ada, { name: 'ci', idempotencyKey: 'k1' })

    expect([first.status, second.status]).toEqual([201, 409])
    expect(second.body.detail).toContain(first.body.id)
    expect(harness.store.keys.size).toBe(before)
    expect(JSON.stringify([...harness.store.idempotency.values()])).not.toContain(first.body.key)
  })

  test('shows when it was last used', async () => {
    const harness = startApp()
    const { body } = await create(harness, harness.keys.ada, { name: 'ci' })
    const used = async () =>
      (await list(harness, harness.keys.ada)).find(({ id }) => id === body.id)?.lastUsedAt
    expect(await used()).toBeUndefined()

    await statusOf(harness, body.key)

    expect(await used()).toBe('2026-01-01T00:00:00.000Z')
  })

  test.for([
    [{ name: '' }, 'name'],
    [{ name: 'a\nb' }, 'name'],
    [{ name: 'x', role: 'admin' }, 'role'],
    [{ name: 'x', owner: 'a\u202eb' }, 'owner'],
    [{ name: 'x', expiresInDays: 0 }, 'expiresInDays'],
    [{ name: 'x', expiresInDays: 367 }, 'expiresInDays'],
  ] as const)('is refused for %j', async ([body, field]) => {
    const harness = startApp()
    const answer = await create(harness, harness.keys.operator, body as CreateApiKeyInput)
    expect([
      answer.status,
      (answer.body as never as { errors: { field: string }[] }).errors[0]?.field,
    ]).toEqual([400, field])
  })

  test('is refused beyond 100 active keys of one owner', async () => {
    const harness = startApp()
    for (let count = 1; count < 100; count++) harness.store.addKey(generateApiKey(), 'ada')
    const { status, body } = await create(harness, harness.keys.ada, { name: 'one more' })
    expect([status, body.detail]).toEqual([409, expect.stringContaining('100 active API keys')])
  })
})

describe('the rights of a created key', () => {
  const PERMITTED: Record<ApiRole, readonly ApiRole[]> = {
    user: ['user'],
    approver: ['user', 'approver'],
    auditor: [],
    operator: ['user', 'auditor', 'approver', 'operator'],
  }
  const roles = Object.keys(PERMITTED) as ApiRole[]

  test.for(roles.flatMap((mine) => roles.map((wanted) => [mine, wanted] as const)))(
    '%s creates a key with the role %s only if it has all its rights',
    async ([mine, wanted]) => {
      const harness = startApp()
      const { status } = await create(harness, withRole(harness, mine), { name: 'x', role: wanted })
      expect(status).toBe(PERMITTED[mine].includes(wanted) ? 201 : 403)
    },
  )

  test.for(roles)('%s creates a key for another owner only as an operator', async (mine) => {
    const harness = startApp()
    const { status, body } = await create(harness, withRole(harness, mine), { name: 'x', owner: 'ada' })
    expect(status).toBe(mine === 'operator' ? 201 : 403)
    if (mine === 'operator') expect(body).toMatchObject({ owner: 'ada', createdBy: 'operator-1' })
  })

  test('a key that expires creates no key that is valid for longer', async () => {
    const harness = startApp()
    const short = await create(harness, harness.keys.operator, {
      name: 'short',
      expiresInDays: 2,
      role: 'operator',
    })

    const longer = await create(harness, short.body.key, { name: 'longer', expiresInDays: 3 })
    const shorter = await create(harness, short.body.key, { name: 'shorter', expiresInDays: 1 })
    const same = await create(harness, short.body.key, { name: 'same' })

    expect([longer.status, shorter.status, same.status]).toEqual([403, 201, 201])
    expect(same.body.expiresAt).toBe(short.body.expiresAt)
  })
})

describe('a key that is not valid any more', () => {
  test('is refused after its expiry, in words', async () => {
    let now = new Date('2026-01-01T00:00:00.000Z')
    const harness = startApp({ now: () => now })
    const { body } = await create(harness, harness.keys.ada, { name: 'ci', expiresInDays: 1 })
    now = new Date('2026-01-01T23:59:59.000Z')
    expect(await statusOf(harness, body.key)).toBe(200)

    now = new Date('2026-01-02T00:00:00.000Z')
    const answer = await harness.app.inject({ url: '/api/runs', headers: bearer(body.key) })

    expect(answer.statusCode).toBe(401)
    expect(answer.headers['www-authenticate']).toContain('invalid_token')
    expect(answer.json().detail).toContain('expired at 2026-01-02')
  })

  test('is refused after its revocation, and revoking it again changes nothing', async () => {
    const harness = startApp()
    const { ada } = harness.keys
    const { body } = await create(harness, ada, { name: 'ci' })
    expect(await statusOf(harness, body.key)).toBe(200)

    const first = await revoke(harness, ada, body.id)
    const second = await revoke(harness, ada, body.id)

    expect(first.body).toMatchObject({ id: body.id, state: 'revoked', revokedBy: 'ada', stillActive: [] })
    expect(second.body).toEqual(first.body)
    const answer = await harness.app.inject({ url: '/api/runs', headers: bearer(body.key) })
    expect([answer.statusCode, answer.json().detail]).toEqual([401, expect.stringContaining('was revoked')])
  })

  test('gets no more events on a stream that was open before', async () => {
    const harness = startApp()
    const { body } = await create(harness, harness.keys.ada, { name: 'ci' })
    const run = await harness.app.inject({
      method: 'POST',
      url: '/api/runs',
      headers: bearer(harness.keys.ada),
      body: RUN,
    })
    const open = async (key: string) => {
      const url = `/api/runs/${run.json().id}/stream`
      const { stream } = await harness.app.inject({ url, headers: bearer(key), payloadAsStream: true })
      const seen = { text: '', hasEnded: false }
      stream()
        .on('data', (chunk) => (seen.text += chunk))
        .on('close', () => (seen.hasEnded = true))
      return { seen, destroy: () => stream().destroy() }
    }
    const [revoked, other] = [await open(body.key), await open(harness.keys.ada)]
    await until('the streams are open', () => [revoked, other].every(({ seen }) => seen.text !== ''))

    await revoke(harness, harness.keys.ada, body.id)
    await until('the stream has ended', () => revoked.seen.hasEnded)
    harness.service.append(run.json().id, { type: 'done', data: { state: 'succeeded' } })
    await until('the other stream goes on', () => other.seen.text.includes('done'))

    expect(revoked.seen.text).not.toContain('done')
    other.destroy()
  })

  test('lists the keys that were created with it', async () => {
    const harness = startApp()
    const { operator } = harness.keys
    const leaked = await create(harness, operator, { name: 'leaked', role: 'operator' })
    const planted = await create(harness, leaked.body.key, { name: 'planted', role: 'operator' })

    const { body } = await revoke(harness, operator, leaked.body.id)

    expect(body.stillActive).toEqual([planted.body.id])
  })
})

describe('a caller', () => {
  test('sees and revokes only own keys, except operators', async () => {
    const harness = startApp()
    const { ada, bob, operator } = harness.keys
    const { body } = await create(harness, ada, { name: 'ci' })

    expect((await list(harness, bob)).map(({ owner }) => owner)).toEqual(['bob'])
    expect(new Set((await list(harness, operator)).map(({ owner }) => owner))).toEqual(
      new Set(['ada', 'bob', 'local']),
    )
    expect((await list(harness, withRole(harness, 'auditor'))).some(({ owner }) => owner === 'ada')).toBe(
      true,
    )
    expect((await revoke(harness, bob, body.id)).status).toBe(404)
    expect((await revoke(harness, withRole(harness, 'approver'), body.id)).status).toBe(404)
    expect((await revoke(harness, withRole(harness, 'auditor'), body.id)).status).toBe(403)
    expect(await statusOf(harness, body.key)).toBe(200)
    expect((await revoke(harness, operator, body.id)).status).toBe(200)
  })

  test('does not revoke the key of the request', async () => {
    const harness = startApp()
    const [own] = await list(harness, harness.keys.ada)
    const { status, body } = await revoke(harness, harness.keys.ada, own?.id ?? '')
    expect([status, body.detail]).toEqual([409, expect.stringContaining('the key of this request')])
    expect(await statusOf(harness, harness.keys.ada)).toBe(200)
  })

  test('does not revoke a key of the same owner that has more rights', async () => {
    const harness = startApp()
    const mighty = await create(harness, harness.keys.operator, { name: 'm', role: 'operator', owner: 'ada' })
    expect((await revoke(harness, harness.keys.ada, mighty.body.id)).status).toBe(403)
    expect(await statusOf(harness, mighty.body.key)).toBe(200)
  })
})
