import { spawnSync } from 'node:child_process'

/** Whether a user namespace can be had, in which a test is root and may change the machine as one program sees it. */
export const canAlterMachine =
  spawnSync('unshare', ['--user', '--map-root-user', '--mount', 'true']).status === 0

/**
 * Returns a command prefix that runs `setup`, a shell command that changes this machine, and then the given program.
 */
export function onMachineWhere(setup: string): string[] {
  return ['unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', `${setup}; exec "$@"`, 'sh']
}

/** Forbids user namespaces, which both rungs of Linux need. */
export const FORBID_NAMESPACES = 'echo 0 > /proc/sys/user/max_user_namespaces'
