import { readFileSync } from 'node:fs'
import { errnoOf } from '../../kit/errors.ts'

/** When a process started, in clock ticks since boot: with the pid it names one process for ever. */
export function startTimeOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The second field is the program's name in parentheses and may hold anything; field 22 is the start time.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ESRCH') return undefined
    throw error
  }
}

/** Kills every process of a group; one that is gone already is no error. */
export function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch (error) {
    if (errnoOf(error) !== 'ESRCH') throw error
  }
}
