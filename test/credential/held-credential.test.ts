import { expect, it } from 'vitest'
import { type Held, HeldCredential, REFRESH_MS } from '../../runtime/azure/held-credential.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { silentLog } from '../../runtime/kit/log.ts'

const START = 1_700_000_000_000

/** A credential with a source that the test controls. */
function aCredential(first: Held) {
  const state = { ms: START, answer: first as Held | Error, reads: 0, learned: [] as string[] }
  const credential = new HeldCredential({
    read: async () => {
      state.reads += 1
      if (state.answer instanceof Error) throw state.answer
      return state.answer
    },
    onValue: (value) => void state.learned.push(value),
    now: () => state.ms,
    log: silentLog,
  })
  return { state, fetch: () => credential.fetch() }
}

it('reads once for all concurrent callers', async () => {
  const { state, fetch } = aCredential({ value: 'a' })

  const values = await Promise.all([fetch(), fetch(), fetch()])

  expect(values).toEqual(['a', 'a', 'a'])
  expect(state.reads).toBe(1)
})

it('reads again when it has grown old, and near its end', async () => {
  const { state, fetch } = aCredential({ value: 'a', expiresAtMs: START + 400_000 })
  await fetch()

  state.ms += 90_000
  await fetch()
  const before = state.reads
  state.ms += 20_000
  state.answer = { value: 'b' }

  expect(await fetch()).toBe('b')
  expect([before, state.reads]).toEqual([1, 2])
  state.ms += REFRESH_MS - 1
  await fetch()
  expect(state.reads).toBe(2)
  state.ms += 1
  await fetch()
  expect(state.reads).toBe(3)
})

it('outlives a server that does not answer, until its own end', async () => {
  const { state, fetch } = aCredential({ value: 'a', expiresAtMs: START + 2 * REFRESH_MS })
  await fetch()
  state.answer = new SandboxError('credential_unavailable', 'nobody answers')

  state.ms += REFRESH_MS
  expect(await fetch()).toBe('a')
  state.ms += REFRESH_MS

  await expect(fetch()).rejects.toMatchObject({ code: 'credential_unavailable' })
})

it.each(['credential_forbidden', 'credential_absent'] as const)(
  'does not outlive a server that says %s, and asks again the next time',
  async (code) => {
    const { state, fetch } = aCredential({ value: 'a' })
    await fetch()
    state.answer = new SandboxError(code, 'no longer yours')

    state.ms += REFRESH_MS
    await expect(fetch()).rejects.toMatchObject({ code })
    await expect(fetch()).rejects.toMatchObject({ code })
    state.answer = { value: 'b' }

    expect(await fetch()).toBe('b')
    expect(state.reads).toBe(4)
  },
)

it('announces every new value once, before a caller gets it', async () => {
  const { state, fetch } = aCredential({ value: 'a' })

  await fetch()
  state.ms += REFRESH_MS
  await fetch()
  state.answer = { value: 'b' }
  state.ms += REFRESH_MS
  await fetch()

  expect(state.learned).toEqual(['a', 'b'])
})
