import type { ChildProcess } from 'node:child_process'
import { Socket } from 'node:net'
import { POD_HOMES } from '../../../contracts/pod.ts'
import type { RunnerWarning } from '../../../contracts/runner.ts'
import type { PodRunnerEnv } from '../../../contracts/runner-env.ts'
import { createPodBackend } from '../../executors/pod.ts'
import { COMMAND_LIMITS } from '../../executors/process/command-supervisor.ts'
import { seccompProgram } from '../../executors/seccomp/filter.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import { present } from '../../kit/present.ts'
import { createSpawner } from '../../system-calls/posix-spawn.ts'
import {
  adoptOrphans,
  createOomPreference,
  forbidTracing,
  groupOf,
  installSyscallFilter,
  limitResources,
  reap,
} from '../../system-calls/process-control.ts'
import { serveRunner } from '../serve.ts'
import { connectToHost } from './connect.ts'
import { EgressRelay } from './egress-relay.ts'
import { NO_LOOPBACK, offlineReason, podIsolation } from './isolation.ts'
import { proveNetworkOff } from './network-off.ts'
import { PodNetwork } from './pod-network.ts'
import { chooseForm, startOffline } from './start-offline.ts'

/**
 * The limits of a command. The number of processes is limited by the kubelet instead, because pods that share a
 * kernel also share the user.
 */
const LIMITS = {
  coreBytes: 0,
  openFiles: COMMAND_LIMITS.openFiles,
  fileBytes: COMMAND_LIMITS.fileBytes,
  dataBytes: COMMAND_LIMITS.dataBytes,
}

type Env = PodRunnerEnv
type Serve = (serving: Serving) => Promise<void>

/** Runs one runner of a sandbox pod until AgentHost disconnects. */
export async function runInPod(env: Env, log: Log): Promise<void> {
  // Installed first. A command of the same user can send SIGUSR1 to a thread id of this process; by default,
  // Node would then open its debugger to everyone.
  process.on('SIGUSR1', () => log.warn('ignored SIGUSR1, which would open the debugger'))
  const asVictim = createOomPreference()
  forbidTracing()
  adoptOrphans()
  limitResources(LIMITS)
  // The limit is meant for commands. A workspace file that reaches it must cause a write error in this process,
  // not kill it.
  process.on('SIGXFSZ', () => log.warn('a file reached the size limit'))
  // PID 1 of a container has no default signal handlers, so SIGTERM needs one.
  const leave = () => process.exit(0)
  process.once('SIGTERM', leave)
  const serve: Serve = async (serving) => {
    process.off('SIGTERM', leave)
    await serveCommands({ env, log, asVictim }, serving)
  }
  await (env.AGENTWEAVER_RUNNER_ROLE === 'online' ? runOnline(env, log, serve) : runOffline(env, serve))
}

async function runOnline(env: Env, log: Log, serve: Serve): Promise<void> {
  const network = await startRelay(env, log)
  const [own, inherited] = [await connectToHost(), await connectToHost()]
  const choice = chooseForm(env.AGENTWEAVER_RUNNER_OFFLINE)
  const offline = startOffline(choice, inherited, env.AGENTWEAVER_RUNNER_WORKSPACE)
  offline.once('exit', (code, signal) => {
    log.error('the offline runner ended', { code, signal })
    own.destroy()
  })
  offline.once('error', (error) => log.error('the offline runner could not be started', { error }))
  // The filter is loaded only now, because afterwards no child of this process can create a namespace.
  filterCalls({ unixSocketsOnly: false, runners: [process.pid, ...(offline.pid ? [offline.pid] : [])] })
  await serve({
    stream: own,
    ...present({ network }),
    ownChildren: [offline],
    reason: offlineReason(choice.form, choice.whyFilter),
  })
}

/** Before any command runs, so that no command can take the relay's port. */
async function startRelay({ AGENTWEAVER_EGRESS_ADDRESS: address }: Env, log: Log) {
  if (address === undefined) return undefined
  const relay = new EgressRelay({ address, log })
  await relay.listen()
  return new PodNetwork(relay, POD_HOMES.toolbox)
}

async function runOffline(env: Env, serve: Serve): Promise<void> {
  const { AGENTWEAVER_RUNNER_OFFLINE: form, AGENTWEAVER_RUNNER_FD: fd } = env
  if (form === 'auto' || fd === undefined)
    throw new SandboxError('invalid_config', 'the offline runner is started by the online one')
  filterCalls({ unixSocketsOnly: form === 'filter', runners: [process.pid, process.ppid] })
  const { hasLoopback } = await proveNetworkOff(form)
  const stream = new Socket({ fd, readable: true, writable: true })
  const reason = offlineReason(form, env.AGENTWEAVER_RUNNER_WHY_FILTER)
  await serve({ stream, ownChildren: [], reason, warnings: hasLoopback ? [] : [NO_LOOPBACK] })
}

/**
 * Applies the system call filter of all commands to this process and everything that it starts. Also prevents
 * commands from signalling a runner, whether by name or as their parent (`pkill node`, `kill $PPID`).
 */
function filterCalls(options: {
  readonly unixSocketsOnly: boolean
  readonly runners: readonly number[]
}): void {
  const { unixSocketsOnly, runners } = options
  const spared = { processes: runners, groups: runners.map(groupOf) }
  const program = seccompProgram(process.arch, {
    unixSocketsOnly,
    keepsRing: true,
    spared,
    // Files in a pod cannot reach the host, and archives drop these bits. The volume may be a set-group-ID
    // folder.
    permitsSetGroupId: true,
    permitsOpenat2: true,
  })
  if (program) installSyscallFilter(program)
  else throw new SandboxError('isolation_unavailable', `there is no system call filter for ${process.arch}`)
}

interface Serving {
  readonly stream: Socket
  /** The way of commands to the egress proxy. @default they reach what the network policies allow */
  readonly network?: PodNetwork
  readonly ownChildren: readonly ChildProcess[]
  readonly reason: string
  readonly warnings?: readonly RunnerWarning[]
}

interface Runner {
  readonly env: Env
  readonly log: Log
  readonly asVictim: ReturnType<typeof createOomPreference>
}

async function serveCommands(
  { env, log, asVictim }: Runner,
  { stream, network, ownChildren, reason, warnings }: Serving,
): Promise<void> {
  const spawn = createSpawner()
  process.once('SIGTERM', () => stream.destroy())
  process.on('SIGINT', () => log.debug('ignored SIGINT; AgentHost ends the runner'))
  const isolation = podIsolation(reason)
  const backend = createPodBackend({
    isolation,
    home: POD_HOMES.toolbox,
    workspaceBytes: env.AGENTWEAVER_RUNNER_WORKSPACE_BYTES,
    ...(network && { networkEnvironment: (own) => network.environment(own) }),
    start: (program) => asVictim(() => spawn(program)),
    ownChildren: () => ownChildren.flatMap(({ pid }) => pid ?? []),
    reap,
  })
  const { AGENTWEAVER_RUNNER_ROLE: role, AGENTWEAVER_RUNNER_WORKSPACE: root } = env
  await serveRunner({
    stream,
    role,
    isolation,
    backend,
    root,
    toolRoots: [],
    clearsSetId: false,
    log,
    ...present({ warnings, relay: network }),
  })
}
