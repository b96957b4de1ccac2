import type { Log } from './log.ts'

/** Runs a clean-up and logs its failure instead of throwing, so that an earlier error is not hidden. */
export async function bestEffort(log: Log, what: string, clean: () => unknown): Promise<void> {
  try {
    await clean()
  } catch (error) {
    log.warn(`could not ${what}`, { error })
  }
}
