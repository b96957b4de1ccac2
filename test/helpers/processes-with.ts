import { readdirSync, readFileSync } from 'node:fs'

/** Processes of this machine that have an odd word in their command line. */
export function processesWith(oddWord: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(oddWord)
      } catch {
        return false
      }
    })
    .map(Number)
}
