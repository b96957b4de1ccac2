import { existsSync, readdirSync, readFileSync } from 'node:fs'

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

/** A process and all that it has started. */
export function familyOf(pid: number): number[] {
  const path = `/proc/${pid}/task/${pid}/children`
  if (!existsSync(path)) return []
  const children = readFileSync(path, 'utf8').split(' ').filter(Boolean)
  return [pid, ...children.flatMap((child) => familyOf(Number(child)))]
}
