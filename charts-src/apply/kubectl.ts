import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)
/** The CRDs of a cluster with all add-ons take about 20 MB of JSON. */
const MAX_BYTES = 256 * 1_048_576
const TIMEOUT_MS = 300_000

/** Runs kubectl with these arguments and returns its stdout. Throws an error with its stderr on failure. */
export type Kubectl = (...args: readonly string[]) => Promise<string>

/** Runs the kubectl of the PATH against its current context. */
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
