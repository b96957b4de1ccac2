import { readdirSync, readFileSync } from 'node:fs'
import { errnoOf } from '../../kit/errors.ts'
import { STATUS_FD } from './command-supervisor.ts'

/** `O_CLOEXEC` from asm-generic/fcntl.h, the same on x64 and arm64. */
const CLOSES_ON_EXEC = 0o2_000_000

/**
 * Descriptors that this service inherited from its parent and that every command would inherit too. Node sets
 * close-on-exec on its own descriptors, but not on these.
 */
export function inheritedDescriptors(): number[] {
  return readdirSync('/proc/self/fd')
    .map(Number)
    .filter((fd) => fd > STATUS_FD && staysOpen(fd))
}

function staysOpen(fd: number): boolean {
  try {
    const flags = /^flags:\s*([0-7]+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'))?.[1] ?? '0'
    return (Number.parseInt(flags, 8) & CLOSES_ON_EXEC) === 0
  } catch (error) {
    // The descriptor that read this directory is already closed.
    if (errnoOf(error) === 'ENOENT') return false
    throw error
  }
}
