import { execFileSync } from 'node:child_process'
import { createPublicKey, generateKeyPairSync, randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { ConfigureRequestInput } from '../contracts/configure.ts'
import { ExecRequest } from '../contracts/exec.ts'
import { CONTAINERS, EXECUTOR_KEYS, WORKSPACE_MOUNT } from '../contracts/names.ts'
import { SandboxSettings } from '../contracts/policy.ts'
import { AGENT_HOST_PORT } from '../contracts/ports.ts'
import { createKubeClient, type KubeClient } from '../devcluster/client/kube-client.ts'
import type { KubeObject } from '../devcluster/client/kube-object.ts'
import { readKubeconfig } from '../devcluster/client/kubeconfig.ts'
import { conditionOf } from '../devcluster/client/manifests.ts'
import { KEYS_MAP, sandboxPodSpec } from '../devcluster/client/sandbox-pod-spec.ts'
import { type Cluster, startCluster } from '../devcluster/cluster.ts'
import { completeOptions } from '../devcluster/cluster-options.ts'
import { whyNoNodes } from '../devcluster/host/privileges.ts'
import { waitUntil } from '../devcluster/host/wait-until.ts'
import { createAgentHostClient } from '../runtime/agent-host-client/client.ts'
import { signTicket } from '../runtime/api/keys/ticket.ts'
import { deadline } from '../runtime/kit/deadline.ts'
import { type Bench, type Figure, figure } from './harness.ts'

const NAMESPACE = 'default'
const READY_MS = 60_000
const COMMANDS = 60
const EXECS = 15
const WARM_UP = 5
/** Pods of each kind and runtime whose start is measured. */
const STARTS = 7
/** What loads after standby has been loaded by then. */
const SETTLE_MS = 1_000
/** Limits for memory before the agent runtime is loaded, for processor time, and for one command. */
const BAR = { memoryBytes: 90 * 1024 * 1024, memoryRatio: 1.8, startRatio: 2, cpuMs: 300, commandMs: 20 }
const RUNTIMES = ['runc', 'gvisor'] as const
const never = new AbortController().signal

/** Memory and processor time of a sandbox pod in standby, and the time of a command that does nothing. */
export const bench: Bench = { name: 'pod', run }

async function run(): Promise<readonly Figure[]> {
  const lacking = whyNoNodes()
  if (lacking) {
    process.stderr.write(`pod: ${lacking}\n`)
    return []
  }
  const cluster = await startCluster(completeOptions({ gvisor: true }), () => undefined)
  const client = createKubeClient(readKubeconfig(cluster.kubeconfig))
  try {
    const figures: Figure[] = []
    for (const runtime of RUNTIMES) figures.push(...(await measure({ cluster, client, runtime })))
    return figures
  } finally {
    await client.close()
    await cluster.stop()
  }
}

type Samples = { baseline: number[]; value: number[] }

interface Place {
  readonly cluster: Cluster
  readonly client: KubeClient
  readonly runtime: (typeof RUNTIMES)[number]
}

async function measure(place: Place): Promise<Figure[]> {
  const { runtime } = place
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const jwk = {
    ...createPublicKey(publicKey.export({ type: 'spki', format: 'pem' })).export({ format: 'jwk' }),
    kid: 'k1',
    alg: 'EdDSA',
  }
  await place.client.apply({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: KEYS_MAP, namespace: NAMESPACE },
    data: { [EXECUTOR_KEYS.file]: JSON.stringify({ keys: [jwk] }) },
  })
  const { pod, memory, start, processor, standby } = await measureStarts(place)
  const commands = await timeCommands(pod, privateKey)
  const execs = timeExecs(place, pod)
  const spawns = timeSpawns(place, pod)
  return [
    figure({
      name: `pod memory (${runtime})`,
      unit: 'bytes',
      bar: BAR.memoryRatio,
      samples: memory,
      note: `AgentHost in standby against a bare HTTP server in a pod of the same image; budget ${BAR.memoryBytes} bytes`,
    }),
    figure({
      name: `pod start (${runtime})`,
      unit: 'ms',
      bar: BAR.startRatio,
      samples: start,
      note: `until AgentHost waits for nothing but its runner, by its own clock; standby after ${standby.afterMs} ms`,
    }),
    figure({
      name: `pod processor (${runtime})`,
      unit: 'ms',
      measure: 'absolute',
      bar: BAR.cpuMs,
      samples: processor,
      note: `time on a processor until standby, where ${standby.residentBytes} bytes are resident`,
    }),
    figure({
      name: `pod command (${runtime})`,
      unit: 'ms',
      measure: 'absolute',
      bar: BAR.commandMs,
      samples: { baseline: execs, value: commands },
      note: '`true` through PUT /commands until its exit is seen; the baseline is `kubectl exec`',
    }),
    figure({
      name: `pod command (${runtime}), bare`,
      unit: 'ms',
      bar: Number.POSITIVE_INFINITY,
      samples: { baseline: spawns, value: commands },
      note: 'for information: the baseline is a bare Node in the same container that starts `true` and waits for it',
    }),
  ]
}

/** Starts pods one after the other, alternating between AgentHost and the bare server. The last AgentHost keeps serving. */
async function measureStarts(place: Place) {
  const { runtime } = place
  const empty = (): Samples => ({ baseline: [], value: [] })
  const [memory, start, processor] = [empty(), empty(), empty()]
  for (let round = 1; ; round++) {
    const bare = await startPod(place, `bare-${runtime}-${round}`, barePodSpec(runtime))
    const pod = await startPod(place, `bench-${runtime}-${round}`, talkativePodSpec(runtime))
    await delay(SETTLE_MS)
    const standby = startOf(place, pod)
    for (const [into, one, said] of [
      ['baseline', bare, startOf(place, bare)],
      ['value', pod, standby],
    ] as const) {
      memory[into].push(residentBytesOf(place, one))
      start[into].push(said.ownMs)
      processor[into].push(said.processorMs)
    }
    await endPod(place, bare)
    if (round === STARTS) return { pod, memory, start, processor, standby }
    await endPod(place, pod)
  }
}

async function endPod({ client }: Place, pod: KubeObject): Promise<void> {
  const { name } = pod.metadata
  await client.delete(
    { apiVersion: 'v1', plural: 'pods', namespace: NAMESPACE, name },
    { gracePeriodSeconds: 0 },
  )
}

const classOf = (runtime: Place['runtime']) => (runtime === 'gvisor' ? { runtimeClassName: 'gvisor' } : {})

/** Runs `subjects/bare-server.mjs`, which reports its start time in the format of AgentHost. */
const BARE = `import { createServer } from 'node:http'
const { cpuUsage, memoryUsage } = process
createServer((_request, response) => response.end('ok')).listen(${AGENT_HOST_PORT}, '::', () => {
  const { user, system } = cpuUsage()
  const afterMs = Math.round(performance.now())
  const processorMs = Math.round((user + system) / 1000)
  console.log(JSON.stringify({ message: 'waiting for the runner', afterMs }))
  console.log(JSON.stringify({ message: 'standby', afterMs, processorMs, residentBytes: memoryUsage.rss() }))
})`

function talkativePodSpec(runtime: Place['runtime']) {
  const { containers, ...spec } = sandboxPodSpec(classOf(runtime))
  const withLevel = containers.map((container) =>
    container.name === CONTAINERS.agentHost
      ? { ...container, env: [...container.env, { name: 'AGENT_HOST_LOG_LEVEL', value: 'debug' }] }
      : container,
  )
  return { ...spec, containers: withLevel }
}

/** The same pod with the bare server instead of AgentHost. The toolbox container starts too and waits for a peer that never connects. */
function barePodSpec(runtime: Place['runtime']) {
  const { containers, ...spec } = sandboxPodSpec(classOf(runtime))
  const command = ['/usr/local/bin/node', '--input-type=module', '-e', BARE]
  const bare = containers.map((container) =>
    container.name === CONTAINERS.agentHost ? { ...container, command } : container,
  )
  return { ...spec, containers: bare }
}

async function startPod({ client }: Place, name: string, spec: object): Promise<KubeObject> {
  await client.create({ apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace: NAMESPACE }, spec })
  return waitUntil({ what: `pod ${name}`, timeoutMs: READY_MS, everyMs: 50 }, async () => {
    const pod = await client.get({ apiVersion: 'v1', plural: 'pods', namespace: NAMESPACE, name })
    return conditionOf(pod, 'Ready')?.status === 'True' ? pod : undefined
  })
}

type Container = { readonly pod: KubeObject; readonly container: string }

function kubectl({ cluster }: Place, words: readonly string[]): string {
  const argv = ['--kubeconfig', cluster.kubeconfig, '-n', NAMESPACE, ...words]
  return execFileSync(`${cluster.binFolders[0]}/kubectl`, argv, { encoding: 'utf8' })
}

function exec(place: Place, { pod, container }: Container, argv: readonly string[]): string {
  return kubectl(place, ['exec', pod.metadata.name, '-c', container, '--', ...argv])
}

/** Of the first process of a container, as its own kernel counts. */
function residentBytesOf(place: Place, pod: KubeObject): number {
  const script = `require('fs').readFileSync('/proc/1/status', 'utf8')`
  const text = exec(place, { pod, container: CONTAINERS.agentHost }, ['node', '-p', script])
  return Number(/VmRSS:\s+(\d+)/.exec(text)?.[1]) * 1024
}

interface Start {
  /** From the start of the process, by its own clock: until it waited for nothing but its runner, and until standby. */
  readonly ownMs: number
  readonly afterMs: number
  readonly processorMs: number
  readonly residentBytes: number
}

function startOf(place: Place, pod: KubeObject): Start {
  const said = kubectl(place, ['logs', pod.metadata.name, '-c', CONTAINERS.agentHost]).split('\n')
  const lineOf = (words: string) => {
    const line = said.find((one) => one.includes(`"${words}"`))
    if (line === undefined) throw new Error(`${pod.metadata.name} did not say "${words}"`)
    return JSON.parse(line)
  }
  return { ...lineOf('standby'), ownMs: lineOf('waiting for the runner').afterMs }
}

async function timeCommands(pod: KubeObject, privateKey: Parameters<typeof signTicket>[0]['privateKey']) {
  const baseUrl = `http://${pod['status'].podIP}:${AGENT_HOST_PORT}`
  const bearer = 'A'.repeat(43)
  const client = createAgentHostClient({ baseUrl, guard: { verify: async () => undefined } }, bearer)
  const request: ConfigureRequestInput = {
    runId: 'bench',
    generation: 1,
    userId: 'bench',
    turnBearerToken: bearer,
    digestKey: bearer,
    credential: { kind: 'none' },
    agent: { kind: 'none' },
    governance: { version: '1', settings: SandboxSettings.parse({}) },
    workingDirectory: WORKSPACE_MOUNT,
  }
  const body = Buffer.from(JSON.stringify(request))
  const instanceId = pod.metadata.uid ?? ''
  const ticket = await signTicket(
    { kid: 'k1', privateKey },
    { instanceId, runId: 'bench', body, now: new Date() },
  )
  await client.configure({ runId: 'bench', generation: 1, ticket, body, signal: never })
  const stop = new AbortController()
  const waiting = new Map<string, () => void>()
  const following = (async () => {
    for await (const { event } of client.events(0, stop.signal))
      if (event.type === 'command.exited') waiting.get(event.data.commandId)?.()
  })().catch(() => undefined)
  const samples: number[] = []
  for (let round = -WARM_UP; round < COMMANDS; round++) {
    const id = randomUUID()
    const { promise, resolve } = Promise.withResolvers<void>()
    waiting.set(id, resolve)
    const startedAt = performance.now()
    await client.startCommand(id, ExecRequest.parse({ command: 'true' }), never)
    await deadline('the end of a command', READY_MS, promise)
    if (round >= 0) samples.push(performance.now() - startedAt)
  }
  stop.abort()
  await following
  await client.close()
  return samples
}

function timeExecs(place: Place, pod: KubeObject): number[] {
  return Array.from({ length: EXECS }, () => {
    const startedAt = performance.now()
    exec(place, { pod, container: CONTAINERS.toolbox }, ['true'])
    return performance.now() - startedAt
  })
}

/** Prints the milliseconds that each start of `true` takes until its end is seen, one after the other. */
const SPAWNS = `const { spawn } = require('node:child_process')
const took = []
const next = () => {
  const startedAt = performance.now()
  spawn('/bin/true', { stdio: 'ignore' }).once('exit', () => {
    took.push(performance.now() - startedAt)
    if (took.length < ${WARM_UP + EXECS}) next()
    else console.log(JSON.stringify(took.slice(${WARM_UP})))
  })
}
next()`

function timeSpawns(place: Place, pod: KubeObject): number[] {
  return JSON.parse(exec(place, { pod, container: CONTAINERS.toolbox }, ['node', '-e', SPAWNS])) as number[]
}
