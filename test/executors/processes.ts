import { readdirSync, readFileSync } from 'node:fs'

/** Ids of processes whose command line contains `text`. Arguments are separated by NUL. */
export function processesNaming(text: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && commandLineOf(name).startsWith(text))
    .map(Number)
}

function commandLineOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}

/** Ids of processes whose command line contains `text`, including launchers and shells. */
export function processesMentioning(text: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && commandLineOf(name).includes(text))
    .map(Number)
}
