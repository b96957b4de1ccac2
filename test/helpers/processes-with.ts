import { readdirSync, readFileSync } from 'node:fs'

/** Processes of this machine whose command line contains a unique word. */
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
