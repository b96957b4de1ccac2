import { readdirSync, readFileSync } from 'node:fs'
import { errnoOf } from '../../kit/errors.ts'
import { STATUS_FD } from './witness.ts'

/** `O_CLOEXEC` of asm-generic/fcntl.h, the same on both our machines. */
const CLOSES_ON_EXEC = 0o2_000_000

/**
 * Open files that whoever started this service left to it, and that would go on to every command. Node opens its
 * own so that they close; these it neither knows nor closes.
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
    // The one by which the folder itself was read.
    if (errnoOf(error) === 'ENOENT') return false
    throw error
  }
}
