import { DatabaseSync } from 'node:sqlite'
import { setTimeout as delay } from 'node:timers/promises'
import type { PlanStep } from '../contracts/agents.ts'
import { FINAL_STATES, type StartRunInput } from '../contracts/api.ts'
import { type Bench, type Figure, figure } from './harness.ts'
import { type Service, startService } from './subjects/service.ts'

const RUNS = 6
const OUTAGE_MS = 60_000
const READY_BAR_MS = 2_000
const LOOK_MS = 50
/** After the outage a run has a few seconds of work left. */
const END_MS = 300_000

/** A store that another process keeps locked for a minute, in the middle of several runs. */
export const bench: Bench = {
  name: 'store-outage',
  run: async (): Promise<readonly Figure[]> => {
    await using service = await startService({ warm: 1 })
    const ids = await Promise.all(Array.from({ length: RUNS }, () => startRun(service)))
    for (const id of ids) await until(async () => (await stateOf(service, id)) === 'running')
    const lock = new DatabaseSync(service.storeFile)
    lock.exec('begin immediate')
    const lockedAt = performance.now()
    await until(async () => !(await isReady(service)))
    const noticedMs = performance.now() - lockedAt
    await delay(OUTAGE_MS - noticedMs)
    lock.exec('rollback')
    lock.close()
    const signal = AbortSignal.timeout(END_MS)
    await Promise.all(ids.map((id) => until(() => isFinal(service, id), signal).catch(() => undefined)))
    const states = await Promise.all(ids.map((id) => stateOf(service, id)))
    const stranded = states.filter((state) => !isFinalState(state)).length
    return [
      figure({
        name: 'store locked for 60 s: stranded runs',
        unit: 'count',
        measure: 'absolute',
        bar: 0,
        samples: { baseline: [0], value: [stranded] },
        note: `${RUNS} runs; afterwards they were ${states.toSorted().join(', ')}`,
      }),
      figure({
        name: 'store locked: until not ready',
        unit: 'ms',
        measure: 'absolute',
        bar: READY_BAR_MS,
        samples: { baseline: [0], value: [noticedMs] },
      }),
    ]
  },
}

async function startRun({ client, workspace }: Service): Promise<string> {
  const steps: PlanStep[] = Array.from({ length: 20 }, (): PlanStep[] => [
    { kind: 'say', text: 'word' },
    { kind: 'wait', ms: 500 },
  ]).flat()
  const run: StartRunInput = {
    task: 'work through an outage',
    workspace: { kind: 'path', path: workspace },
    agent: { kind: 'scripted', plan: { turns: [steps] } },
  }
  return (await client.startRun(run)).id
}

const stateOf = async ({ client }: Service, id: string) => (await client.readRun(id)).state
const isFinalState = (state: string) => FINAL_STATES.some((final) => final === state)
const isFinal = async (service: Service, id: string) => isFinalState(await stateOf(service, id))
const isReady = async ({ url }: Service) => (await fetch(`${url}/readyz`)).status === 200

async function until(condition: () => Promise<boolean>, signal = AbortSignal.timeout(END_MS)): Promise<void> {
  while (!(await condition())) await delay(LOOK_MS, undefined, { signal })
}
