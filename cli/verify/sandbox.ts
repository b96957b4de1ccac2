import { FINAL_STATES, type Run, type StartCommandInput, type StartRunInput } from '../../contracts/api.ts'
import type { RunEvent } from '../../contracts/events.ts'
import type { SandboxKind } from '../../contracts/names.ts'
import type { Client } from '../../runtime/client/client.ts'
import { delay } from '../../runtime/kit/deadline.ts'
import { NotRun } from './outcome.ts'

export type Bound = Extract<RunEvent, { type: 'sandbox.execution_pod.bound' }>['data']

/** A TCP destination of a probe. */
export interface Target {
  readonly host: string
  readonly port: number
}

export interface Sandbox {
  readonly id: string
  /** The sandbox's pod; undefined if the service has no pods. */
  readonly bound: Bound | undefined
  /** Time from the request until the sandbox accepted commands. */
  readonly readyMs: number
  /** Runs a command and returns its output. Throws unless it exits with 0. */
  output(command: string): Promise<string>
  /** Tries a TCP connection to each target from inside the sandbox. */
  reached(targets: readonly Target[]): Promise<boolean[]>
  destroy(): Promise<void>
}

const READY_MS = 180_000
const POLL_MS = 20
const CONNECT_MS = 4000
const COMMAND_MS = 30_000

/**
 * Runs a program in the pod's toolbox container, bypassing the service. If the policy gives commands no network, this
 * still tests the network policies, which must hold against a command that escapes its own isolation.
 */
export type InPod = (bound: Bound | undefined, argv: readonly string[]) => Promise<string>

interface Wanted {
  readonly kind: SandboxKind
  readonly inPod: InPod
}

/** Creates a sandbox through the API, as a user would. */
export async function makeSandbox(client: Client, { kind, inPod }: Wanted): Promise<Sandbox> {
  const begun = performance.now()
  const { id } = await request(client, kind)
  const destroy = () => (kind === 'agent' ? end(client, id) : client.destroySandbox(id).then(() => undefined))
  try {
    await untilReady(client, id, kind)
    const readyMs = performance.now() - begun
    const bound = await boundOf(client, id)
    const output = (command: string) => outputOf(client, id, { command })
    return {
      id,
      bound,
      readyMs,
      output,
      async reached(targets) {
        const program = probe(targets)
        const { network_enabled: isOpen } = await client.readPolicy()
        const command = { command: `node -e '${program}'`, network: true }
        const answer = isOpen
          ? await outputOf(client, id, command)
          : await inPod(bound, ['node', '-e', program])
        return parseReached(answer, targets.length)
      },
      destroy,
    }
  } catch (error) {
    await destroy()
    throw error
  }
}

/** An agent sandbox needs a run. Its scripted agent prints one line and waits for the next turn. */
function request(client: Client, kind: SandboxKind): Promise<Run> {
  const common = { workspace: { kind: 'empty' }, labels: { purpose: 'verify' } } as const
  if (kind === 'command') return client.createSandbox(common)
  const plan = {
    turns: [[{ kind: 'say', text: 'agentweaver verify looks at the network of this sandbox.' }]],
  }
  const agent = { kind: 'scripted', plan } as StartRunInput['agent']
  return client.startRun({ ...common, task: 'agentweaver verify', agent, interactive: true })
}

/** Cancels a run and waits until its sandbox is released. */
async function end(client: Client, id: string): Promise<void> {
  const until = performance.now() + READY_MS
  let { state } = await client.cancel(id)
  while (!FINAL_STATES.some((final) => final === state) && performance.now() < until) {
    await delay(POLL_MS)
    state = (await client.readRun(id)).state
  }
}

async function untilReady(client: Client, id: string, kind: SandboxKind): Promise<void> {
  const until = performance.now() + READY_MS
  while (performance.now() < until) {
    const { state, failure } = await (kind === 'agent' ? client.readRun(id) : client.readSandbox(id))
    if (state === 'waiting' || (state === 'running' && kind === 'command')) return
    if (FINAL_STATES.some((final) => final === state))
      throw new Error(`the sandbox did not start: ${failure?.message ?? state}`)
    await delay(POLL_MS)
  }
  throw new Error(`the sandbox was not ready after ${READY_MS / 1000} s`)
}

/** The event that names the sandbox's pod. It precedes readiness. */
async function boundOf(client: Client, id: string): Promise<Bound | undefined> {
  const { items } = await client.readEvents(id, { limit: 100 })
  for (const { event } of items) if (event.type === 'sandbox.execution_pod.bound') return event.data
  return undefined
}

async function outputOf(client: Client, id: string, request: StartCommandInput): Promise<string> {
  let output = ''
  for await (const { event } of client.runCommand(id, { ...request, timeoutMs: COMMAND_MS })) {
    if (event.type === 'command.output' && event.data.stream === 'stdout') output += event.data.chunk
    if (event.type !== 'command.exited') continue
    const { exitCode, message } = event.data.result
    if (exitCode !== 0)
      throw new NotRun(`a command in the sandbox ended with ${exitCode ?? message ?? 'no status'}`)
    return output
  }
  throw new Error('the sandbox ended before its command did')
}

/** Base64 keeps the host names from being interpreted by a shell. */
function probe(targets: readonly Target[]): string {
  const data = Buffer.from(JSON.stringify(targets)).toString('base64')
  const program = `const net = require('node:net')
const one = ({ host, port }) => new Promise((done) => {
  const socket = net.connect({ host, port })
  const end = (reached) => { socket.destroy(); done(reached) }
  socket.setTimeout(${CONNECT_MS}, () => end(false)).on('connect', () => end(true)).on('error', () => end(false))
})
Promise.all(JSON.parse(Buffer.from('${data}', 'base64')).map(one)).then((all) => console.log(JSON.stringify(all)))`
  const encoded = Buffer.from(program).toString('base64')
  return `eval(Buffer.from("${encoded}", "base64").toString())`
}

function parseReached(text: string, count: number): boolean[] {
  const answer: unknown = JSON.parse(text)
  if (Array.isArray(answer) && answer.length === count && answer.every((one) => typeof one === 'boolean'))
    return answer
  throw new Error('the probe in the sandbox returned unreadable output')
}
