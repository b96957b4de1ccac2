import type { Log } from './log.ts'

/** Runs a clean-up whose failure must not hide what came before; the log names it. */
export async function bestEffort(log: Log, what: string, clean: () => unknown): Promise<void> {
  try {
    await clean()
  } catch (error) {
    log.warn(`could not ${what}`, { error })
  }
}
