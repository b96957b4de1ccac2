import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { AgentConfig, PlanStep } from '../../contracts/agents.ts'
import type { HostEnvelope } from '../../contracts/events.ts'
import { turnEnded } from '../agent-host/process-rig.ts'
import { definitions } from '../agents/agent-rig.ts'
import { PLANTED_FILES } from '../agents/planted-files.ts'
import { type ModelServer, startModelServer, textOf } from '../fakes/model-server.ts'
import { anArchive } from '../workspace/archive-fixture.ts'
import { hasFeature } from './helpers/features.ts'
import { useNamespace } from './helpers/namespace.ts'
import { type SandboxPod, startSandboxPod } from './helpers/sandbox-pod.ts'

const never = new AbortController().signal
const CANARY = 'canary-of-the-model-credential'
const shell = (command: string): PlanStep => ({ kind: 'tool', tool: 'run_command', arguments: { command } })

describe.each(['runc', 'gvisor'])('an agent in a sandbox pod under %s', (runtime) => {
  describe.skipIf(!hasFeature(runtime === 'runc' ? 'real node' : 'gvisor'))('works', () => {
    const space = useNamespace(`agent-${runtime}`)
    const parts = runtime === 'runc' ? {} : { runtimeClassName: runtime }
    const started: SandboxPod[] = []
    const models: ModelServer[] = []
    const aPod = async () => {
      const pod = await startSandboxPod(space, space.unique('agent'), parts)
      started.push(pod)
      return pod
    }
    afterAll(async () => {
      for (const { client } of started) await client.close()
      for (const model of models) await model.close()
    })

    describe('with the real Copilot SDK and a hostile repository', () => {
      let model: ModelServer
      let events: HostEnvelope[]
      let pod: SandboxPod

      beforeAll(async () => {
        pod = await aPod()
        model = await startModelServer({
          host: await addressTowards(new URL(pod.baseUrl).hostname),
          respond: (_request, index) =>
            index === 0
              ? { text: 'I look.', toolCalls: [{ name: 'run_command', arguments: { command: LOOK } }] }
              : { text: 'Done.' },
        })
        models.push(model)
        const agent = { kind: 'openaiCompatible', model: { name: 'fake-model', baseUrl: model.url } } as const
        await pod.configure({ agent, credential: { kind: 'token', token: CANARY } })
        await pod.client.putWorkspace(chunksOf(await plantedArchive()), never)
        await pod.client.turns.start({ id: 't1', prompt: 'look around' }, never)
        events = await collect(pod, 0, turnEnded)
      }, 120_000)

      it('runs the command of the model in the toolbox and returns the result to the model', () => {
        const output = events.flatMap(({ event }) =>
          event.type === 'command.output' ? event.data.chunk : [],
        )
        const told = model.requests[1]?.messages.filter(({ role }) => role === 'tool').map(textOf)
        expect(output.join('')).toContain('uid 1000')
        expect(told?.join('')).toContain('uid 1000')
        expect(events.at(-1)?.event).toMatchObject({ data: { turnId: 't1', state: 'completed' } })
      })

      it('offers the model only the product’s tools, and neither loads nor runs files of the repository', async () => {
        const said = model.requests.flatMap(({ messages }) => messages.map(textOf)).join('\n')
        const files = await pod.client.file({ op: 'list', path: '.', limit: 1000 }, new Uint8Array(), never)
        const names = files.result.ok ? (files.result.entries ?? []).map(({ path }) => path) : []

        expect(model.requests[0]?.tools.map((tool) => tool.function.name).sort()).toEqual(OUR_TOOLS)
        expect(said).not.toContain('planted-words')
        expect(names).toContain('AGENTS.md')
        expect(names).not.toContain('planted-ran')
      })

      it('uses the credential for the model, and never in a command or an event', () => {
        expect(model.requests[0]?.headers['authorization']).toBe(`Bearer ${CANARY}`)
        expect(JSON.stringify(events)).not.toContain(CANARY)
        const output = events.flatMap(({ event }) =>
          event.type === 'command.output' ? event.data.chunk : [],
        )
        expect(output.join('')).toContain('found 0 canaries')
      })
    })

    it('neither repeats nor loses events when the stream reconnects at any position', async () => {
      const pod = await aPod()
      const turn: PlanStep[] = [
        { kind: 'say', text: 'one' },
        shell('echo two'),
        { kind: 'say', text: 'three' },
      ]
      await pod.configure({ agent: scripted(turn) })
      await pod.client.turns.start({ id: 't1', prompt: 'go' }, never)
      const all = await collect(pod, 0, turnEnded)

      for (let cut = 0; cut < all.length; cut++)
        expect(await collect(pod, cut, turnEnded)).toEqual(all.slice(cut))
    })

    it('continues without its caller, and ends a running command when it is cancelled', async () => {
      const pod = await aPod()
      await pod.configure({ agent: scripted([shell('sleep 0.3; echo done > done')], [shell('sleep 300')]) })
      const leaving = new AbortController()
      await pod.client.turns.start({ id: 't1', prompt: 'go' }, leaving.signal)
      leaving.abort()
      await collect(pod, 0, turnEnded)
      await pod.client.turns.start({ id: 't2', prompt: 'go on' }, never)
      const isCall = ({ event, taskId }: HostEnvelope) => taskId === 't2' && event.type === 'tool.call'
      const after = await collect(pod, 0, isCall)

      await pod.client.turns.cancel('t2', never)
      // `collect` gives up after 60 s, long before the command ends by itself.
      const end = (await collect(pod, after.length, turnEnded)).at(-1)

      expect(end?.event).toMatchObject({ type: 'turn.ended', data: { turnId: 't2', state: 'cancelled' } })
      const done = await pod.client.file({ op: 'read', path: 'done' }, new Uint8Array(), never)
      expect(done.result.ok).toBe(true)
    })
  })
})

/** Prints the user id, makes git run its configured commands, and searches all readable data for the credential. */
const LOOK = [
  'echo uid $(id -u)',
  'git status >/dev/null 2>&1',
  `found=$( (cat /proc/[0-9]*/environ; grep -rs ${CANARY.replace('-', '[-]')} /tmp /home /workspace /etc; env) 2>/dev/null | grep -c ${CANARY.replace('-', '[-]')})`,
  'echo found $found canaries',
].join('; ')

const OUR_TOOLS = definitions()
  .map(({ name }) => name)
  .sort()

const scripted = (...turns: PlanStep[][]): AgentConfig => ({ kind: 'scripted', plan: { turns } })

/** Returns the events after a sequence up to the first match, and releases every call. */
async function collect(
  { client }: SandboxPod,
  after: number,
  isLast: (envelope: HostEnvelope) => boolean,
): Promise<HostEnvelope[]> {
  const stop = AbortSignal.timeout(60_000)
  const seen: HostEnvelope[] = []
  for await (const envelope of client.events(after, stop)) {
    seen.push(envelope)
    const { event } = envelope
    if (event.type === 'tool.call' && event.data.verdict !== 'deny') {
      const decisions = [{ callId: event.data.callId, outcome: 'release' as const }]
      await client.decide({ ackedThrough: 0, decisions }, stop)
    }
    if (isLast(envelope)) return seen
  }
  throw new Error(`the stream ended after ${seen.length} events`)
}

const plantedArchive = () =>
  anArchive(
    Object.entries(PLANTED_FILES).map(([name, text]) => ({
      name,
      content: text.replaceAll('MARKER', '/workspace/planted-ran'),
    })),
  )

async function* chunksOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}

/** The address of this machine that another host sees. */
async function addressTowards(other: string): Promise<string> {
  const socket = createSocket('udp4')
  socket.connect(9, other)
  await once(socket, 'connect')
  const { address } = socket.address()
  socket.close()
  return address
}
