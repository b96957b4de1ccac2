import { closeSync, fstatSync, openSync, readSync } from 'node:fs'

const TAIL_BYTES = 16_384

/** The last lines of a log file. Reads at most `TAIL_BYTES`. */
export function tailOf(path: string, lines = 15): string {
  try {
    const file = openSync(path, 'r')
    try {
      const { size } = fstatSync(file)
      const buffer = Buffer.alloc(Math.min(size, TAIL_BYTES))
      readSync(file, buffer, 0, buffer.length, size - buffer.length)
      return buffer.toString('utf8').trimEnd().split('\n').slice(-lines).join('\n')
    } finally {
      closeSync(file)
    }
  } catch {
    return '(no log)'
  }
}
