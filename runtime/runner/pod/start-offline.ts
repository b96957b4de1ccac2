import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import type { Socket } from 'node:net'
import type { OfflineForm, PodRunnerEnv } from '../../../contracts/runner-env.ts'
import { findTool, lookUpTool } from '../../executors/host.ts'
import { loopbackCommand } from '../../executors/loopback.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'

const SOCKET_FD = 3
const PROBE_TIMEOUT_MS = 10_000
const MAX_REASON_CHARS = 500

export type Choice = { readonly form: OfflineForm; readonly whyFilter?: string }

/** Chooses a namespace if the runtime permits one, unless the pod's settings name a form. */
export function chooseForm(wanted: PodRunnerEnv['AGENTWEAVER_RUNNER_OFFLINE']): Choice {
  if (wanted === 'filter') return { form: 'filter', whyFilter: 'configured for this pod' }
  const problem = namespaceProblem()
  if (problem === undefined) return { form: 'namespace' }
  if (wanted === 'auto') return { form: 'filter', whyFilter: problem }
  throw new SandboxError('isolation_unavailable', `this pod cannot create a network namespace: ${problem}`)
}

/** Returns why this process cannot create a network namespace, found by trying. */
function namespaceProblem(): string | undefined {
  const missing = ['unshare', 'setpriv'].find((tool) => lookUpTool(tool) === undefined)
  if (missing !== undefined) return `${missing} is not installed`
  const [file = '', ...args] = inNamespace(['/bin/true'])
  const { status, stderr, error } = spawnSync(file, args, {
    encoding: 'utf8',
    timeout: PROBE_TIMEOUT_MS,
    env: {},
  })
  if (status === 0) return undefined
  return (error ? messageOf(error) : stderr.trim() || `unshare ended with ${status}`).slice(
    0,
    MAX_REASON_CHARS,
  )
}

/**
 * Wraps a command in a new user and network namespace. The command keeps its user id. The user's capabilities
 * in the namespace bring up the loopback interface and are dropped before the command starts.
 */
function inNamespace(command: readonly string[]): string[] {
  const drop = [findTool('setpriv'), '--ambient-caps=-all', '--inh-caps=-all', '--no-new-privs', '--']
  // In gVisor the loopback interface is up from the start, and the image may not contain a program to bring it
  // up.
  const script = `${loopbackCommand() ?? 'true'} || exit; exec "$@"`
  return [
    ...[findTool('unshare'), '--user', '--map-current-user', '--keep-caps', '--net', '--'],
    ...['/bin/sh', '-c', script, 'sh', ...drop, ...command],
  ]
}

/**
 * Starts the offline runner. It inherits a connection to AgentHost, because it cannot connect from its
 * namespace.
 */
export function startOffline(choice: Choice, socket: Socket, workspace: string): ChildProcess {
  const runner = [process.execPath, ...process.execArgv, ...process.argv.slice(1)]
  const [file = '', ...args] = choice.form === 'namespace' ? inNamespace(runner) : runner
  const child = spawn(file, args, {
    stdio: ['ignore', 'inherit', 'inherit', socket],
    env: {
      AGENTWEAVER_RUNNER_ROLE: 'offline',
      AGENTWEAVER_RUNNER_WORKSPACE: workspace,
      AGENTWEAVER_RUNNER_OFFLINE: choice.form,
      AGENTWEAVER_RUNNER_FD: String(SOCKET_FD),
      ...(choice.whyFilter !== undefined && { AGENTWEAVER_RUNNER_WHY_FILTER: choice.whyFilter }),
    },
  })
  socket.destroy()
  return child
}
