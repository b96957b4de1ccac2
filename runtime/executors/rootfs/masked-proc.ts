import { existsSync } from 'node:fs'
import type { Mount } from './mounts.ts'

/**
 * Files of `/proc` that tell about the host's kernel. Their modes keep everybody out but root, so this matters
 * where the service runs as root: without privileges a command still owns what the kernel's root owns.
 */
const FILES = [
  ...['kcore', 'keys', 'key-users', 'timer_list', 'sched_debug', 'kmsg', 'kallsyms', 'vmallocinfo'],
  ...['kpageflags', 'kpagecount', 'kpagecgroup', 'slabinfo', 'pagetypeinfo'],
]

export const MASKED_PROC_FILES: readonly Mount[] =
  process.getuid?.() === 0
    ? FILES.map((name) => `/proc/${name}`)
        .filter(existsSync)
        .map((target) => ({ kind: 'hidden-file', target }))
    : []
