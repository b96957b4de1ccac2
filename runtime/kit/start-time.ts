import { readFileSync } from 'node:fs'
import { errnoOf } from './errors.ts'

/** Start time of a process in clock ticks since boot. Together with the pid it identifies a process uniquely. */
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
