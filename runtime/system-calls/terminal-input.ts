import { libc } from './libc.ts'

/** Of termios.h: input that was received and not yet read. The number differs between Linux and macOS. */
const TCIFLUSH = process.platform === 'darwin' ? 1 : 0

type Flush = (fd: number, queue: number) => number

/** Discards what was typed at a terminal and not yet read. False where the system refuses. */
export function discardTyped(fd: number): boolean {
  const flush: Flush = libc().func('int tcflush(int, int)')
  return flush(fd, TCIFLUSH) === 0
}
