import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)
/**
 * The first version that was tried with this program layout. An older version is skipped, because its failure would
 * show nothing.
 */
export const OLDEST = [3, 250, 0] as const

export type Found = { readonly version: string } | { readonly skipped: string }

/** `v3.250.0` and what builds put behind it. */
export function isNewEnough(version: string): boolean {
  const numbers = /^v?(\d+)\.(\d+)\.(\d+)/.exec(version.trim())?.slice(1).map(Number)
  if (numbers === undefined) return false
  const index = OLDEST.findIndex((oldest, at) => numbers[at] !== oldest)
  return index < 0 || (numbers[index] ?? 0) > (OLDEST[index] ?? 0)
}

/** Returns whether a usable engine exists. It only calls the program itself. */
export async function findPulumi(environment: NodeJS.ProcessEnv): Promise<Found> {
  const env = { ...environment, PULUMI_SKIP_UPDATE_CHECK: 'true' }
  try {
    const { stdout } = await run('pulumi', ['version'], { env, timeout: 150_000 })
    const version = stdout.trim()
    return isNewEnough(version)
      ? { version }
      : { skipped: `pulumi ${version} is older than ${OLDEST.join('.')}` }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { skipped: 'no pulumi on PATH' }
    throw error
  }
}
