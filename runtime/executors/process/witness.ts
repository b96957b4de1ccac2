import { signalName } from '../../kit/signal-name.ts'
import { commandShell } from '../command-shell.ts'

/**
 * The witness is a small shell that is the parent of every command, in the sandbox: it sets the limits, enters
 * the working directory, and tells over a socket (descriptor 4) how the command ended, which the exit status of
 * a chain of launchers cannot tell (they all answer 128+n for a signal).
 *
 * It waits for `go` before it starts anything. By then every parent-death signal of the chain is armed, so a
 * service that dies at any moment leaves no command behind.
 *
 * Lines it writes: `ready`, then at the end `exit <status>`; between them a shell's own word about a command
 * that died by a signal. Anything before `ready` is why it could not start.
 */
export const STATUS_FD = 4

/** Descriptor that a backend may hand to its launcher; neither the witness nor the command has it. */
export const LAUNCHER_FD = 3

export const COMMAND_LIMITS = {
  processes: 1024,
  openFiles: 8192,
  fileBytes: 8 * 1024 ** 3,
  /** Private writable memory of one process (RLIMIT_DATA): address space would stop Node, which reserves much. */
  dataBytes: 8 * 1024 ** 3,
} as const

/** A shell sets hard and soft limits alike; what the host already limits further stays so. */
function limitLines(): string {
  const { processes, openFiles, fileBytes, dataBytes } = COMMAND_LIMITS
  const lines = [
    'ulimit -c 0',
    `ulimit -n ${openFiles}`,
    `ulimit -f ${fileBytes / 512}`,
    `ulimit -d ${dataBytes / 1024}`,
    // bash calls the number of processes -u, dash and busybox -p (which is read-only in bash).
    `ulimit -u ${processes} || ulimit -p ${processes}`,
    // The kernel ends the command before the service when memory runs out.
    'echo 500 >/proc/self/oom_score_adj',
  ]
  return `{ ${lines.join('; ')}; } 2>/dev/null`
}

/** `$1` is the workspace as the command sees it, `$2` the directory under it, `$3` the command. */
export function witnessScript(): string {
  const { file, args, nameArgument } = commandShell()
  const shell = [file, ...args].join(' ')
  // A command can open what its parent has open, with the rights of the owner: setpriv(1) leaves the filter's file there.
  return `exec 8>&2 2>&${STATUS_FD} ${LAUNCHER_FD}>&-
trap : TERM INT HUP
${limitLines()}
cd -P -- "$1" && root=\${PWD:?} || exit 125
cd -P -- "$2" || exit 125
case $PWD/ in "$root"/*) ;; *) echo "the working directory $2 leads out of the workspace"; exit 125 ;; esac >&${STATUS_FD}
echo ready >&${STATUS_FD}
read -r go <&${STATUS_FD} || exit 125
case $go in env) eval "$(cat <&${STATUS_FD})" ;; go) ;; *) exit 125 ;; esac
(exec ${shell} "$3" ${nameArgument} 2>&8 ${STATUS_FD}>&- 8>&-)
status=$?
echo "exit $status" >&${STATUS_FD}
exit "$status"`
}

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

/** What releases the witness: a bare `go`, or the command's environment, which no other user may read from `ps`. */
export function releaseMessage(environment: Readonly<Record<string, string>>): string {
  const exports = Object.entries(environment).map(([name, value]) => `export ${name}=${quoted(value)}`)
  return exports.length === 0 ? 'go\n' : `env\n${exports.join('\n')}\n`
}

export type Ending =
  | { readonly kind: 'exit'; readonly code: number }
  | { readonly kind: 'signal'; readonly signal: string }
  /** The witness itself was ended before it could say how the command ended. */
  | { readonly kind: 'unknown' }

/** Reads what the witness wrote after `ready`. */
export function parseEnding(text: string): Ending {
  const lines = text.split('\n')
  const last = lines.findLastIndex((line) => /^exit \d{1,3}$/.test(line))
  if (last < 0) return { kind: 'unknown' }
  const code = Number((lines[last] as string).slice('exit '.length))
  const saidWhy = lines.slice(0, last).some((line) => line.trim() !== '')
  return code > 128 && saidWhy ? { kind: 'signal', signal: signalName(code - 128) } : { kind: 'exit', code }
}
