import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { HostEnvelope, HostEvent } from '../../contracts/events.ts'
import { SandboxSettings } from '../../contracts/policy.ts'
import { spend, usesOf } from '../../runtime/api/runs/budgets/spend.ts'
import { watchBudgets } from '../../runtime/api/runs/budgets/wall-clock.ts'
import type { RunDeps } from '../../runtime/api/runs/deps.ts'
import type { RunUsage, Store } from '../../runtime/store/store.ts'
import { startCommitterRig } from './committer-rig.ts'

const AT = new Date(0).toISOString()
const NOTHING: RunUsage = { steps: 0, model_requests: 0, tokens: 0, event_bytes: 0, wall_seconds: 0 }

const anAnswer = (sequence: number): HostEnvelope => {
  const event: HostEvent = { type: 'agent.turn.usage', data: { inputTokens: 60, outputTokens: 40 } }
  return { sequence, at: AT, event }
}

/** A rig whose run may use this many tokens. */
async function aRigWith(tokens: number) {
  const rig = await startCommitterRig()
  const settings = SandboxSettings.parse({ budgets: { tokens } })
  /** Each driver reads the run as the store has it, with these settings. */
  const withBudget = (store: Store): Store =>
    new Proxy(store, {
      get: (target, key) => {
        if (key !== 'transaction') return Reflect.get(target, key)
        return (work: Parameters<Store['transaction']>[0]) =>
          target.transaction((tx) =>
            work(
              new Proxy(tx, {
                get: (inner, name) =>
                  name === 'readRun'
                    ? async (id: string) => {
                        const run = await inner.readRun(id)
                        return run && { ...run, settings }
                      }
                    : Reflect.get(inner, name),
              }),
            ),
          )
      },
    })
  const driver = (store: Store = rig.store, over: Partial<RunDeps> = {}) =>
    rig.driver({ store: withBudget(store), ...over })
  const batch = (envelopes: readonly HostEnvelope[]) => ({ runId: rig.runId, generation: 1, envelopes })
  const reports = async () =>
    (await rig.store.readEvents(rig.runId, 0, 1000)).flatMap(({ event }) =>
      event.type === 'run.budget' ? [event.data.used] : [],
    )
  return { ...rig, driver, batch, reports }
}

it('counts each event once, for repeated batches and for every driver', async () => {
  const { store, driver, batch, row, reports } = await aRigWith(1000)
  let breaks = false
  const breaking: Store = new Proxy(store, {
    get: (target, key) => {
      if (key !== 'transaction') return Reflect.get(target, key)
      return (work: Parameters<Store['transaction']>[0]) =>
        target.transaction(async (tx) => {
          const result = await work(tx)
          if (breaks) throw new Error('the store broke')
          return result
        })
    },
  })
  const first = await driver(breaking)
  const answers = Array.from({ length: 10 }, (_, index) => anAnswer(index + 1))

  breaks = true
  await expect(first.committer.commit(batch(answers.slice(0, 6)))).rejects.toThrow('the store broke')
  breaks = false
  await first.committer.commit(batch(answers.slice(0, 6)))
  await first.committer.commit(batch(answers.slice(0, 8)))
  const second = await driver()
  const committed = await second.committer.commit(batch(answers))
  const repeated = await second.committer.commit(batch(answers))

  expect((await row()).usage).toMatchObject({ tokens: 1000, model_requests: 10, steps: 0 })
  expect(await reports()).toEqual([600, 800, 1000])
  expect(committed.spent).toEqual({ kind: 'tokens', used: 1000, limit: 1000 })
  expect(repeated.spent, 'a driver that missed it is told again').toEqual(committed.spent)
})

it('releases no call of a batch that used up a budget', async () => {
  const { driver, batch } = await aRigWith(100)
  const call: HostEvent = {
    type: 'tool.call',
    data: { callId: 'c1', tool: 'run_command', request: { command: 'ls' }, verdict: 'allow', reasons: [] },
  }
  const { committer } = await driver()

  const committed = await committer.commit(batch([{ sequence: 1, at: AT, event: call }, anAnswer(2)]))

  expect(committed.spent).toMatchObject({ kind: 'tokens' })
  expect(committed.decisions).toEqual([])
})

it('does not count the requests that the egress proxy counts', async () => {
  const { driver, batch, row } = await aRigWith(1000)
  const routed = await driver(undefined, { modelProxy: { url: async () => undefined, routes: () => true } })

  await routed.committer.commit(batch([anAnswer(1)]))
  expect((await row()).usage).toMatchObject({ tokens: 0, model_requests: 0 })

  const { committer } = await driver()
  await committer.commit(batch([anAnswer(2)]))
  expect((await row()).usage).toMatchObject({ tokens: 100, model_requests: 1 })
})

it('reports a used-up budget to a new driver', async () => {
  const { store, row, runId } = await startCommitterRig()
  const usage = { ...NOTHING, tokens: 12 }
  await store.transaction((tx) => tx.changeRun(runId, { usage }))
  const run = { ...(await row()), settings: SandboxSettings.parse({ budgets: { tokens: 10 } }) }

  const spent = await watchBudgets({ store, clock: () => new Date() }, run, new AbortController().signal)

  expect(spent).toEqual({ kind: 'tokens', used: 12, limit: 10 })
})

it('reports each threshold once, for steps of any size (property)', () => {
  const settings = SandboxSettings.parse({ budgets: { tokens: 100 } })
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 60 }), { maxLength: 30 }), (amounts) => {
      let usage = NOTHING
      const reported: number[] = []
      for (const tokens of amounts) {
        const spending = spend({ usage, settings }, { tokens })
        usage = spending.usage
        for (const { data } of spending.notices) reported.push((data as { used: number }).used)
      }

      const total = amounts.reduce((sum, amount) => sum + amount, 0)
      const bands = reported.map((used) => [50, 80, 100].filter((part) => used >= part).length)
      expect(usage.tokens).toBe(total)
      expect(bands).toEqual([...new Set(bands)])
      expect(bands.at(-1) ?? 0).toBe([50, 80, 100].filter((part) => total >= part).length)
    }),
  )
})

it('counts the bytes of an event as it is stored, and a refused call as a step', () => {
  const event: HostEvent = {
    type: 'tool.error',
    data: { callId: 'c', tool: 'x', code: 'denied', message: '\u{1F600}' },
  }

  expect(usesOf([event])).toEqual({
    steps: 1,
    model_requests: 0,
    tokens: 0,
    event_bytes: Buffer.byteLength(JSON.stringify(event)),
  })
})
