import { readdirSync, readFileSync } from 'node:fs'

/** Numbers of the processes whose command line contains `text`; arguments are separated by NUL. */
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

/** Numbers of the processes in whose command line `text` occurs, launchers and shells included. */
export function processesMentioning(text: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && commandLineOf(name).includes(text))
    .map(Number)
}
