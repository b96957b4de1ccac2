import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { StartRunInput } from '../contracts/api.ts'
import { type Bench, type Figure, figure, timed } from './harness.ts'
import { BARE_SERVER, startSubject } from './subjects/process.ts'
import { get, type Service, startService } from './subjects/service.ts'

const BAR = 2.5
const WARM = { warm: 1, rounds: 15, warmUp: 3 }
const COLD = { warm: 0, rounds: 5, warmUp: 1 }

/** `POST /api/runs` to the agent's first event, against the start of a bare Node HTTP server and a request to it. */
export const bench: Bench = {
  name: 'run-start-local',
  run: async () => [await measure(WARM, 'warm'), await measure(COLD, 'cold')],
}

async function measure(plan: typeof WARM, what: 'warm' | 'cold'): Promise<Figure> {
  const samples = { baseline: [] as number[], value: [] as number[] }
  await using service = await startService({ warm: plan.warm })
  for (let round = -plan.warmUp; round < plan.rounds; round++) {
    await service.untilWarm()
    const baseline = await timed(startBareServer)
    await service.untilWarm()
    const value = await startRun(service, what)
    if (round < 0) continue
    samples.baseline.push(baseline)
    samples.value.push(value)
  }
  return figure({
    name: `run-start-local (${what})`,
    unit: 'ms',
    // A cold start holds the starts of two more programs.
    bar: what === 'warm' ? BAR : Number.POSITIVE_INFINITY,
    samples,
    ...(what === 'cold' && { note: 'for information: no sandbox was kept ready' }),
  })
}

async function startBareServer(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'bare-'))
  const socket = join(folder, 'socket')
  const server = await startSubject([BARE_SERVER, socket])
  await get(socket, '/')
  // The bench measures the start of the run, not its end.
  void server.stop().then(() => rmSync(folder, { recursive: true }))
}

/** Milliseconds to the first event that is the agent's. */
async function startRun({ client, workspace }: Service, expected: 'warm' | 'cold'): Promise<number> {
  const run: StartRunInput = {
    task: 'say a word',
    workspace: { kind: 'path', path: workspace },
    agent: { kind: 'scripted', plan: { turns: [[{ kind: 'say', text: 'hello' }]] } },
  }
  const startedAt = performance.now()
  const { id } = await client.startRun(run)
  let first: number | undefined
  for await (const { event } of client.streamEvents(id)) {
    if (/^(?:agent|tool)\./.test(event.type)) first ??= performance.now() - startedAt
    if (event.type === 'sandbox.execution_pod.bound' && event.data.launch !== expected)
      throw new Error(`the sandbox was ${event.data.launch}, not ${expected}`)
  }
  if (first === undefined) throw new Error('the agent said nothing')
  return first
}
