import { createHash } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'
import type { AgentConfig } from '../../contracts/agents.ts'
import type { ConfigureRequestInput } from '../../contracts/configure.ts'
import type { CallDecision } from '../../contracts/decisions.ts'
import type { HostEnvelope } from '../../contracts/events.ts'
import { type ModelReply, startModelServer } from '../fakes/model-server.ts'
import { type HostOnSocket, startHostOnSocket } from './process-rig.ts'

export const never = new AbortController().signal
const soon = () => AbortSignal.timeout(150_000)
/** The call that waits in these tests. It can be held up by a file in its workspace. */
export const COMMAND = { command: 'echo x >> effect.txt; if [ -e hold ]; then sleep 300; fi' }

type Outcome = CallDecision['outcome']

/** Follows the events and decides each call, up to the first event that matches. */
export async function follow(
  { client }: HostOnSocket,
  isLast: (envelope: HostEnvelope) => boolean,
  decide: (callId: string) => Outcome | undefined = () => 'release',
): Promise<HostEnvelope[]> {
  const seen: HostEnvelope[] = []
  for await (const envelope of client.events(0, soon())) {
    seen.push(envelope)
    const { event } = envelope
    if (event.type === 'tool.call') {
      const { callId } = event.data
      const outcome = decide(callId)
      if (outcome) await client.decide({ ackedThrough: 0, decisions: [{ callId, outcome }] }, soon())
    }
    if (isLast(envelope)) return seen
  }
  throw new Error('the stream ended')
}

export const called = ({ event }: HostEnvelope) => event.type === 'tool.call'

export const sessionOf = async ({ client }: HostOnSocket) =>
  new Uint8Array(await buffer((await client.getSession(soon())) as never))

/** A sandbox of the run. From the second generation on, it gets a session. */
export async function aSandbox(change: Partial<ConfigureRequestInput>, session?: Uint8Array) {
  const host = await startHostOnSocket()
  const announced = session && {
    session: { sha256: createHash('sha256').update(session).digest('hex'), bytes: session.length },
  }
  await host.configure({ ...change, ...announced }, session)
  return host
}

/** Starts the turn again in a sandbox that has its session. */
export const resume = ({ client }: HostOnSocket) =>
  client.turns.start({ id: 't1', prompt: 'go' }, never, { resumes: true })

/** A sandbox in which a turn waits for a decision about its first call. */
export async function aWaitingTurn(change: Partial<ConfigureRequestInput>) {
  const host = await aSandbox(change)
  await host.client.turns.start({ id: 't1', prompt: 'go' }, never)
  const seen = await follow(host, called, () => 'pending')
  const call = seen.find(called)?.event
  return { host, call, callId: call?.type === 'tool.call' ? call.data.callId : '' }
}

/** A model that first calls `run_command`. `later` is its reply to the request with this index. */
export async function aModel(later: (index: number) => ModelReply = () => ({ text: 'It is done.' })) {
  const server = await startModelServer({
    respond: (_request, index) =>
      index === 0
        ? { text: 'I will.', toolCalls: [{ id: 'call_a', name: 'run_command', arguments: COMMAND }] }
        : later(index),
  })
  onTestFinished(() => server.close())
  const agent: AgentConfig = {
    kind: 'openaiCompatible',
    model: { name: 'fake-model', baseUrl: server.url },
  }
  return { server, agent }
}
