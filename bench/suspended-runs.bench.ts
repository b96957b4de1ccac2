import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import type { Store } from '../runtime/store/store.ts'
import { type Bench, type Figure, figure } from './harness.ts'
import { residentBytes } from './subjects/process.ts'
import { seededRun, seedStore } from './subjects/seeded-runs.ts'
import { startService } from './subjects/service.ts'

const RUNS = 1_000
const EVENTS = 50
const BAR_BYTES = 20 * 1024 * 1024
const ROUNDS = 3
/** The sweep of suspended runs has looked at them several times by then. */
const SETTLE_MS = 8_000

/** What runs that wait for a person without a sandbox cost: resident memory and processes of the service. */
export const bench: Bench = {
  name: 'suspended-runs',
  run: async (): Promise<readonly Figure[]> => {
    const samples = { none: [] as Cost[], some: [] as Cost[] }
    for (let round = 0; round < ROUNDS; round++) {
      samples.none.push(await costOf(0))
      samples.some.push(await costOf(RUNS))
    }
    const of = (costs: Cost[], what: keyof Cost) => costs.map((cost) => cost[what])
    return [
      figure({
        name: `${RUNS} suspended runs: memory`,
        unit: 'bytes',
        measure: 'added',
        bar: BAR_BYTES,
        samples: { baseline: of(samples.none, 'bytes'), value: of(samples.some, 'bytes') },
      }),
      figure({
        name: `${RUNS} suspended runs: processes`,
        unit: 'count',
        measure: 'added',
        bar: 0,
        samples: { baseline: of(samples.none, 'children'), value: of(samples.some, 'children') },
      }),
    ]
  },
}

type Cost = { readonly bytes: number; readonly children: number }

async function costOf(runs: number): Promise<Cost> {
  await using service = await startService({
    warm: 0,
    // A service that a command starts leaves the runs of others alone.
    settings: { AGENTWEAVER_LIFELINE: 'false' },
    seed: (file) => seedStore(file, (store) => suspend(store, runs)),
  })
  await delay(SETTLE_MS)
  return { bytes: residentBytes(service.pid), children: childrenOf(service.pid) }
}

async function suspend(store: Store, runs: number): Promise<void> {
  const at = new Date().toISOString()
  for (let number = 0; number < runs; number++) {
    const run = seededRun(number)
    const { id } = run
    await store.transaction(async (tx) => {
      await tx.insertRun(run)
      const event = { type: 'agent.message', data: { messageId: 'm', text: 'word '.repeat(20) } } as const
      await tx.appendEvents(
        id,
        Array.from({ length: EVENTS }, () => ({ event })),
      )
      await tx.insertTurn({ id: `t${number}`, runId: id, state: 'sent', prompt: 'p', final: false })
      const decision = { callId: 'c', outcome: 'pending' } as const
      const call = { runId: id, callId: 'c', tool: 'create', state: 'open', openedAt: at, decision } as const
      await tx.insertCall({ ...call, request: { path: 'a' } })
      await tx.insertApproval({
        ...{ requestId: `r${number}`, runId: id, callId: 'c', kind: 'tool', tool: 'create', binding: 'b' },
        ...{ redacted: false, state: 'pending', createdAt: at, expiresAt: '2099-01-01T00:00:00.000Z' },
      })
      await tx.changeRunState(id, { from: 'queued', to: 'suspended' })
      await tx.changeRun(id, {
        ...{ generation: 1, startedAt: at, checkpointAt: at, waiting: { for: 'approval', since: at } },
        ...{ checkpoint: { sequence: EVENTS }, carriedCalls: ['c'] },
      })
    })
  }
}

function childrenOf(parent: number): number {
  const isChild = (pid: string) => {
    try {
      return readFileSync(`/proc/${pid}/stat`, 'utf8')
        .replace(/^.*\) . /, '')
        .startsWith(`${parent} `)
    } catch {
      return false
    }
  }
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name) && isChild(name)).length
}
