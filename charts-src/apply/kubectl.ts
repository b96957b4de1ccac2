import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)
/** All definitions of a cluster with everything installed are some 20 MB of JSON. */
const MAX_BYTES = 256 * 1_048_576
const TIMEOUT_MS = 300_000

/** Runs kubectl with these arguments and answers what it printed; what it complains of is the error's message. */
export type Kubectl = (...args: readonly string[]) => Promise<string>

/** The kubectl of the PATH, on whatever cluster its own configuration names. */
export const kubectl: Kubectl = async (...args) => {
  try {
    const { stdout } = await run('kubectl', [...args], { maxBuffer: MAX_BYTES, timeout: TIMEOUT_MS })
    return stdout
  } catch (error) {
    const { stderr = '', code } = error as { stderr?: string; code?: unknown }
    if (code === 'ENOENT') throw new Error('kubectl is not in the PATH', { cause: error })
    throw new Error(stderr.trim() || `kubectl ${args[0] ?? ''} failed`, { cause: error })
  }
}
