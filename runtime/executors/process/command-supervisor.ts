import { signalName } from '../../kit/signal-name.ts'
import { commandShell } from '../command-shell.ts'

/**
 * The command supervisor is a small shell inside the sandbox and the parent of every command. It sets the
 * limits, enters the working directory, and reports over a socket (descriptor 4) how the command ended: the
 * exit status of a chain of launchers cannot tell a signal from exit code 128+n. It waits for `go` before it
 * starts the command. By then every parent-death signal in the chain is armed, so no command survives the death
 * of the service. It writes the line `ready` and, at the end, `exit <status>`; in between, the shell's own
 * message about a command that a signal killed. Text before `ready` says why the command could not start.
 */
export const STATUS_FD = 4

/** Descriptor that a backend may pass to its launcher. Neither the supervisor nor the command has it. */
export const LAUNCHER_FD = 3

export const COMMAND_LIMITS = {
  processes: 1024,
  openFiles: 8192,
  fileBytes: 8 * 1024 ** 3,
  /**
   * Private writable memory of one process (RLIMIT_DATA). A limit on address space would break Node, which
   * reserves a lot.
   */
  dataBytes: 8 * 1024 ** 3,
} as const

/** The shell sets hard and soft limits together. Lower limits of the host stay in force. */
function limitLines(): string {
  const { processes, openFiles, fileBytes, dataBytes } = COMMAND_LIMITS
  const lines = [
    'ulimit -c 0',
    `ulimit -n ${openFiles}`,
    `ulimit -f ${fileBytes / 512}`,
    `ulimit -d ${dataBytes / 1024}`,
    // The process limit is -u in bash, and -p in dash and busybox (read-only in bash).
    `ulimit -u ${processes} || ulimit -p ${processes}`,
    // If memory runs out, the kernel kills the command before the service.
    'echo 500 >/proc/self/oom_score_adj',
  ]
  return `{ ${lines.join('; ')}; } 2>/dev/null`
}

/**
 * Starts the network relay, given as `$4` and what follows, and waits until it has closed descriptor 3, on which it reports
 * that it listens. For a refused connection, it writes the reason to the command's standard error.
 */
const START_RELAY = `if [ $# -gt 3 ]; then
  said=$(shift 3; "$@" 3>&1 </dev/null >/dev/null 2>&8 ${STATUS_FD}>&- 8>&- &)
  [ "$said" = listening ] || { echo "the network relay did not start: $said"; exit 125; } >&${STATUS_FD}
fi`

/**
 * Returns the supervisor's script. `$1` is the workspace as the command sees it, `$2` the directory below it,
 * `$3` the command. With network access, the program of the relay and its arguments follow.
 */
export function supervisorScript(): string {
  const { file, args, nameArgument } = commandShell()
  const shell = [file, ...args].join(' ')
  // A command can open its parent's descriptors with its owner's rights, and setpriv(1) leaves the filter's
  // file open.
  return `exec 8>&2 2>&${STATUS_FD} ${LAUNCHER_FD}>&-
trap : TERM INT HUP
${limitLines()}
cd -P -- "$1" && root=\${PWD:?} || exit 125
cd -P -- "$2" || exit 125
case $PWD/ in "$root"/*) ;; *) echo "the working directory $2 leads out of the workspace"; exit 125 ;; esac >&${STATUS_FD}
${START_RELAY}
echo ready >&${STATUS_FD}
read -r go <&${STATUS_FD} || exit 125
case $go in env) eval "$(cat <&${STATUS_FD})" ;; go) ;; *) exit 125 ;; esac
(exec ${shell} "$3" ${nameArgument} 2>&8 ${STATUS_FD}>&- 8>&-)
status=$?
echo "exit $status" >&${STATUS_FD}
exit "$status"`
}

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

/** The message that starts the command: `go`, or the command's environment, which must not appear in `ps`. */
export function releaseMessage(environment: Readonly<Record<string, string>>): string {
  const exports = Object.entries(environment).map(([name, value]) => `export ${name}=${quoted(value)}`)
  return exports.length === 0 ? 'go\n' : `env\n${exports.join('\n')}\n`
}

export type Ending =
  | { readonly kind: 'exit'; readonly code: number }
  | { readonly kind: 'signal'; readonly signal: string }
  /** The supervisor was killed before it reported how the command ended. */
  | { readonly kind: 'unknown' }

/** Parses the supervisor's output after `ready`. */
export function parseEnding(text: string): Ending {
  const lines = text.split('\n')
  const last = lines.findLastIndex((line) => /^exit \d{1,3}$/.test(line))
  if (last < 0) return { kind: 'unknown' }
  const code = Number((lines[last] as string).slice('exit '.length))
  const saidWhy = lines.slice(0, last).some((line) => line.trim() !== '')
  return code > 128 && saidWhy ? { kind: 'signal', signal: signalName(code - 128) } : { kind: 'exit', code }
}
