import { existsSync } from 'node:fs'
import { bindReadOnly, hiddenFile, type Mount } from './mounts.ts'

/**
 * Kernel devices and settings that uid 0 can write without privileges. If the service runs as root, a command
 * is uid 0 outside its namespace: writing `sysrq-trigger` alone would stop the machine.
 */
const WRITABLE_BY_ROOT = ['acpi', 'bus', 'fs', 'irq', 'mtrr', 'scsi', 'sysrq-trigger']

/** The mounts over a new `/proc`. Each mount adds about 50 µs to every command, so only necessary ones are made. */
export function procMounts(isRoot: boolean): Mount[] {
  const writable = WRITABLE_BY_ROOT.map((name) => `/proc/${name}`).filter(existsSync)
  const forRoot = [...writable.map((path) => bindReadOnly(path)), hiddenFile('/proc/keys')]
  // `sys` contains settings that belong to the owner of a namespace and, for root, `core_pattern`.
  return [bindReadOnly('/proc/sys'), ...(isRoot ? forRoot : [])]
}
