import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { deferred } from '../deferred.ts'
import { HarnessError } from '../harness-error.ts'
import { GO_BUILD_ENV } from './cache-key.ts'

export interface GoCommand {
  readonly cwd: string
  readonly args: readonly string[]
  readonly goCache: string
  /** The folder for Go's temporary files. */
  readonly scratch: string
  /** Called with each line of stderr. With `-v`, Go prints one line per compiled package. */
  readonly onLine?: (line: string) => void
}

/**
 * The longest time without output; Go prints a line for each package. The total time has no limit, because a cold build
 * may take hours on a busy machine.
 */
const SILENT_MS = 45 * 60_000
const KEPT_LINES = 15

/** Runs the installed `go` command with our build settings and returns its stdout. */
export async function runGo({ cwd, args, goCache, scratch, onLine }: GoCommand): Promise<string> {
  const child = spawn('setpriv', ['--pdeathsig', 'KILL', '--', 'nice', '-n', '5', 'go', ...args], {
    cwd,
    env: { ...process.env, ...GO_BUILD_ENV, GOCACHE: goCache, GOTMPDIR: scratch },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const silence = setTimeout(() => child.kill('SIGKILL'), SILENT_MS)
  const tail: string[] = []
  let stdout = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    stdout += chunk
  })
  createInterface({ input: child.stderr }).on('line', (line) => {
    silence.refresh()
    onLine?.(line)
    tail.push(line)
    if (tail.length > KEPT_LINES) tail.shift()
  })
  const { promise, resolve, reject } = deferred<number | null>()
  child.on('error', reject).on('close', resolve)
  const code = await promise.finally(() => clearTimeout(silence))
  if (code !== 0) throw new HarnessError(explainGoFailure(args, tail))
  return stdout
}

/** The error message for the terminal. */
export function explainGoFailure(args: readonly string[], tail: readonly string[]): string {
  const text = tail.join('\n')
  if (/no space left on device/i.test(text)) {
    return 'the disk is full, so this build was not kept. Free some space, or point XDG_CACHE_HOME at a larger disk'
  }
  if (/dial tcp|no such host|i\/o timeout|connection refused|TLS handshake/i.test(text)) {
    return `Go cannot reach its module proxy (go env GOPROXY), and the modules are not on this machine yet:\n${text}`
  }
  return `go ${args.slice(0, 2).join(' ')} failed:\n${text}`
}
