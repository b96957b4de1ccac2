import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { HarnessError } from '../harness-error.ts'

const execFileAsync = promisify(execFile)
const TIMEOUT_MS = 60_000
const MAX_BUFFER = 64 * 1024 * 1024

/** Runs a short command on the host and returns its stdout. A failure contains its stderr. */
export async function runCommand(argv: readonly string[], timeoutMs = TIMEOUT_MS): Promise<string> {
  const [program = '', ...args] = argv
  try {
    const { stdout } = await execFileAsync(program, args, { timeout: timeoutMs, maxBuffer: MAX_BUFFER })
    return stdout
  } catch (error) {
    const { stderr, message } = error as Error & { stderr?: string }
    throw new HarnessError(`${argv.join(' ')}: ${stderr?.trim() || message}`, { cause: error })
  }
}
