import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync, writeFileSync } from 'node:fs'
import { deferred } from '../deferred.ts'
import { HarnessError } from '../harness-error.ts'
import { tailOf } from './log-tail.ts'
import { identityOf, type ProcessIdentity } from './process-identity.ts'

export interface DaemonSpec {
  readonly name: string
  readonly argv: readonly string[]
  readonly logPath: string
  readonly env?: NodeJS.ProcessEnv
  /** Control group folders that the process joins before its program starts. */
  readonly cgroups?: readonly string[]
}

export interface Daemon {
  readonly name: string
  readonly logPath: string
  readonly identity: ProcessIdentity
  /** The reason why the program ended. Undefined while it runs. */
  exitReason(): string | undefined
  /** Asks the program to end, and kills it after `graceMs`. */
  stop(graceMs: number): Promise<void>
}

/**
 * A shell that waits for a line before it executes the program, so the parent can first move it into control groups.
 */
const GATE = ['sh', '-c', 'read -r _ && exec "$@"', 'gate']

/**
 * Starts a program that cannot outlive this process: the kernel kills it when this process ends, for any reason. The
 * program gets a new session, so Ctrl-C reaches only this process, which can then stop all programs in order.
 */
export function startDaemon({ name, argv, logPath, env, cgroups }: DaemonSpec): Daemon {
  const log = openSync(logPath, 'a')
  const command = ['--pdeathsig', 'KILL', '--', ...(cgroups ? GATE : []), ...argv]
  const child = spawn('setpriv', command, {
    detached: true,
    stdio: [cgroups ? 'pipe' : 'ignore', log, log],
    env: env ?? process.env,
  })
  closeSync(log)
  if (child.pid === undefined) throw new HarnessError(`${name}: could not start setpriv (package util-linux)`)
  const identity = identityOf(child.pid) ?? { pid: child.pid, startTicks: '' }
  if (cgroups) openGate(child, child.pid, cgroups)
  return supervise({ name, logPath, identity }, child)
}

function openGate(child: ChildProcess, pid: number, cgroups: readonly string[]): void {
  for (const folder of cgroups) writeFileSync(`${folder}/cgroup.procs`, String(pid))
  child.stdin?.end('\n')
}

type Known = Pick<Daemon, 'name' | 'logPath' | 'identity'>

function supervise(known: Known, child: ChildProcess): Daemon {
  let reason: string | undefined
  const { promise: ended, resolve } = deferred()
  const note = (text: string) => {
    reason ??= text
    resolve()
  }
  child.on('exit', (code, signal) => note(signal ? `was ended by ${signal}` : `ended with code ${code}`))
  child.on('error', (error) => note(`could not start: ${error.message}`))
  return {
    ...known,
    exitReason: () => reason,
    async stop(graceMs) {
      if (reason) return
      child.kill('SIGTERM')
      const force = setTimeout(() => child.kill('SIGKILL'), graceMs)
      await ended
      clearTimeout(force)
    },
  }
}

const INOTIFY_FULL = /inotify.*too many open files/
const INOTIFY_HINT =
  'All inotify instances of this user are taken (23 of each cluster with a node): end another cluster, or allow more ' +
  'with `sysctl fs.inotify.max_user_instances=512`.'

/** Why a daemon ended: exit reason, a hint if the cause is known, and the end of its log. */
export function explainEnd(daemon: Daemon): string {
  const tail = tailOf(daemon.logPath)
  const hint = INOTIFY_FULL.test(tail) ? `${INOTIFY_HINT}\n` : ''
  return `${daemon.name} ${daemon.exitReason()}; ${hint}the end of ${daemon.logPath}:\n${tail}`
}
