import { existsSync } from 'node:fs'
import { bindReadOnly, hiddenFile, type Mount } from './mounts.ts'

/**
 * Devices and settings of the kernel that its root user may write without any privilege. A command is that user,
 * outside of its namespace, where the service runs as root: `sysrq-trigger` alone would stop the machine.
 */
const WRITABLE_BY_ROOT = ['acpi', 'bus', 'fs', 'irq', 'mtrr', 'scsi', 'sysrq-trigger']

/** What lies over a fresh `/proc`. Each mount costs every command some 50 µs, so there is none without need. */
export function procMounts(isRoot: boolean): Mount[] {
  const writable = WRITABLE_BY_ROOT.map((name) => `/proc/${name}`).filter(existsSync)
  const forRoot = [...writable.map((path) => bindReadOnly(path)), hiddenFile('/proc/keys')]
  // `sys` has settings that belong to the owner of a namespace, and `core_pattern` for root.
  return [bindReadOnly('/proc/sys'), ...(isRoot ? forRoot : [])]
}
