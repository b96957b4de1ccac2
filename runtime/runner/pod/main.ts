import type { ChildProcess } from 'node:child_process'
import { Socket } from 'node:net'
import { POD_HOMES } from '../../../contracts/pod.ts'
import type { RunnerWarning } from '../../../contracts/runner.ts'
import type { PodRunnerEnv } from '../../../contracts/runner-env.ts'
import { createPodBackend } from '../../executors/pod.ts'
import { COMMAND_LIMITS } from '../../executors/process/witness.ts'
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
import { NO_LOOPBACK, offlineReason, podIsolation } from './isolation.ts'
import { proveNetworkOff } from './network-off.ts'
import { chooseForm, startOffline } from './start-offline.ts'

/** A command's. Pods of one node that share its kernel have the same user: the number of processes is the kubelet's. */
const LIMITS = {
  coreBytes: 0,
  openFiles: COMMAND_LIMITS.openFiles,
  fileBytes: COMMAND_LIMITS.fileBytes,
  dataBytes: COMMAND_LIMITS.dataBytes,
}

type Env = PodRunnerEnv
type Serve = (serving: Serving) => Promise<void>

/** One runner of a sandbox pod, for as long as its AgentHost is there. */
export async function runInPod(env: Env, log: Log): Promise<void> {
  // Before anything else: a command of the same user must not be able to take this process over. By itself Node answers
  // this signal, which a command can send to the number of a thread, by opening its debugger to everybody.
  process.on('SIGUSR1', () => log.warn('somebody asked for the debugger'))
  const asVictim = createOomPreference()
  forbidTracing()
  adoptOrphans()
  limitResources(LIMITS)
  // The limit is a command's: a file of the workspace that reaches it is an error to this process, and no end.
  process.on('SIGXFSZ', () => log.warn('a file reached the limit of its size'))
  // The first process of a container has no default: without a handler a signal is nothing.
  const leave = () => process.exit(0)
  process.once('SIGTERM', leave)
  const serve: Serve = async (serving) => {
    process.off('SIGTERM', leave)
    await serveCommands({ env, log, asVictim }, serving)
  }
  await (env.AGENTWEAVER_RUNNER_ROLE === 'online' ? runOnline(env, log, serve) : runOffline(env, serve))
}

async function runOnline(env: Env, log: Log, serve: Serve): Promise<void> {
  const [own, inherited] = [await connectToHost(), await connectToHost()]
  const choice = chooseForm(env.AGENTWEAVER_RUNNER_OFFLINE)
  const offline = startOffline(choice, inherited, env.AGENTWEAVER_RUNNER_WORKSPACE)
  offline.once('exit', (code, signal) => {
    log.error('the offline runner ended', { code, signal })
    own.destroy()
  })
  offline.once('error', (error) => log.error('the offline runner could not be started', { error }))
  // Only now: from here on no process of this one can make a namespace.
  filterCalls({ unixSocketsOnly: false, runners: [process.pid, ...(offline.pid ? [offline.pid] : [])] })
  await serve({
    stream: own,
    ownChildren: [offline],
    reason: offlineReason(choice.form, choice.whyFilter),
  })
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
 * The filter that every command of this product has, here once for the runner and all that it starts. Whatever a command
 * ends by its name or as its parent (`pkill node`, `kill $PPID`), it is not a runner.
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
    // The files of a pod stay in it, and archives drop these bits. Its volume may be a set-group-ID folder.
    permitsSetGroupId: true,
    permitsOpenat2: true,
  })
  if (program) installSyscallFilter(program)
  else throw new SandboxError('isolation_unavailable', `there is no system call filter for ${process.arch}`)
}

interface Serving {
  readonly stream: Socket
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
  { stream, ownChildren, reason, warnings }: Serving,
): Promise<void> {
  const spawn = createSpawner()
  process.once('SIGTERM', () => stream.destroy())
  process.on('SIGINT', () => log.debug('an interrupt is left to AgentHost'))
  const isolation = podIsolation(reason)
  const backend = createPodBackend({
    isolation,
    home: POD_HOMES.toolbox,
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
    ...present({ warnings }),
  })
}
