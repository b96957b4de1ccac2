import { join } from 'node:path'
import type { PlanStep } from '../contracts/agents.ts'
import type { StartRunInput } from '../contracts/api.ts'
import type { RunEnvelope } from '../contracts/events.ts'
import { createAgentHostClient } from '../runtime/agent-host-client/client.ts'
import { loadDeploymentKeys, turnToken } from '../runtime/api/keys/deployment-keys.ts'
import { type Bench, type Figure, figure } from './harness.ts'
import { type Service, startService } from './subjects/service.ts'

const BAR_MS = 2
const EVENTS = 200
const SPACING_MS = 25
/** The run waits until both readers are there. */
const HEAD_START_MS = 2000
/** The first events meet code that has not run before. */
const WARM_UP = 30

/** By its word, how long after its emission an event came. Emission is known to the millisecond, for both alike. */
type Arrivals = Map<string, { readonly delayMs: number }>

/** What the API adds to an event's way: its own stream against a read of the same event from AgentHost. */
export const bench: Bench = {
  name: 'sse-relay',
  run: async (): Promise<readonly Figure[]> => {
    await using service = await startService({ warm: 1 })
    await service.untilWarm()
    const { direct, relayed } = await follow(service)
    const words = [...direct.keys()].filter((word) => relayed.has(word)).slice(WARM_UP)
    if (words.length < EVENTS / 2) throw new Error(`only ${words.length} events came on both streams`)
    const of = (arrivals: Arrivals) => words.map((word) => arrivals.get(word)?.delayMs ?? 0)
    const samples = { baseline: of(direct), value: of(relayed) }
    return [
      figure({
        name: 'sse-relay',
        unit: 'ms',
        measure: 'added',
        bar: BAR_MS,
        samples,
        note: `one event at a time, ${words.length} of them, each stored before it is shown`,
      }),
    ]
  },
}

async function follow(service: Service) {
  const { client, workspace, stateDir, sockets } = service
  const known = sockets()
  const run: StartRunInput = {
    task: 'count',
    workspace: { kind: 'path', path: workspace },
    agent: { kind: 'scripted', plan: { turns: [steps()] } },
  }
  const { id } = await client.startRun(run)
  const relayed: Arrivals = new Map()
  const direct: Arrivals = new Map()
  const stop = new AbortController()
  let reading: Promise<void> | undefined
  for await (const envelope of client.streamEvents(id)) {
    note(relayed, envelope)
    if (envelope.event.type !== 'turn.started') continue
    const instanceId = await instanceOf(service, id)
    const { derive } = await loadDeploymentKeys(join(stateDir, 'keys'))
    const bearer = turnToken(derive('turn'), { runId: id, generation: 1, instanceId })
    const host = createAgentHostClient({ socketPath: known[0] ?? '' }, bearer)
    reading = readDirect(host, direct, stop.signal).finally(() => host.close())
    reading.catch(() => undefined)
  }
  stop.abort()
  await reading?.catch(() => undefined)
  return { direct, relayed }
}

const steps = (): PlanStep[] => [
  { kind: 'wait', ms: HEAD_START_MS },
  ...Array.from({ length: EVENTS }, (_, index): PlanStep[] => [
    { kind: 'say', text: `word-${index}` },
    { kind: 'wait', ms: SPACING_MS },
  ]).flat(),
]

/** The complete message follows its only delta at once. A waiting reader sees the delta first. */
function note(arrivals: Arrivals, { at, event }: Pick<RunEnvelope, 'at' | 'event'>): void {
  if (event.type !== 'agent.message.delta') return
  const now = performance.timeOrigin + performance.now()
  arrivals.set(event.data.text, { delayMs: now - Date.parse(at) })
}

async function instanceOf({ client }: Service, id: string): Promise<string> {
  const { items } = await client.readEvents(id)
  for (const { event } of items) if (event.type === 'sandbox.execution_pod.bound') return event.data.podUid
  throw new Error('the run has no sandbox')
}

type Host = ReturnType<typeof createAgentHostClient>

/** Reads from the newest event that the API has not acknowledged. */
async function readDirect(host: Host, arrivals: Arrivals, signal: AbortSignal): Promise<void> {
  for await (const envelope of host.events(1, signal)) note(arrivals, envelope)
}
