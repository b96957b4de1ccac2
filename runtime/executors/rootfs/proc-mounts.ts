import { existsSync } from 'node:fs'
import { bindReadOnly, type Mount } from './mounts.ts'

/**
 * Settings and devices of the kernel. Their owner is the kernel's root user, who may write them without any
 * privilege, and who a command is outside of its namespace where the service runs as root: `core_pattern` alone
 * would run a program on the host.
 */
const READ_ONLY = ['acpi', 'asound', 'bus', 'driver', 'fs', 'irq', 'mtrr', 'scsi', 'sys', 'sysrq-trigger']

/** What tells root about the memory and the keys of the host. */
const HIDDEN_FROM_ROOT = [
  ...['kcore', 'keys', 'kpagecgroup', 'kpagecount', 'kpageflags', 'sched_debug', 'timer_list', 'vmallocinfo'],
]

const present = (names: readonly string[]) => names.map((name) => `/proc/${name}`).filter(existsSync)

/** What lies over a fresh `/proc`. */
export function procMounts(isRoot: boolean): Mount[] {
  const hidden = isRoot ? present(HIDDEN_FROM_ROOT) : []
  return [
    ...present(READ_ONLY).map((path) => bindReadOnly(path)),
    ...hidden.map((target) => ({ kind: 'hidden-file', target }) as const),
  ]
}
