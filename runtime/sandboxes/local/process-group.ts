import { errnoOf } from '../../kit/errors.ts'

/** Kills a process group. Does nothing if it does not exist any more. */
export function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch (error) {
    if (errnoOf(error) !== 'ESRCH') throw error
  }
}
