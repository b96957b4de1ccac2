import { libc } from './libc.ts'

/** From termios.h: discard input that was received but not read. The value differs between Linux and macOS. */
const TCIFLUSH = process.platform === 'darwin' ? 1 : 0

type Flush = (fd: number, queue: number) => number

/** Discards unread terminal input. Returns false if the system call fails. */
export function discardTyped(fd: number): boolean {
  const flush: Flush = libc().func('int tcflush(int, int)')
  return flush(fd, TCIFLUSH) === 0
}
