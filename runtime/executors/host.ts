import { existsSync, readFileSync } from 'node:fs'
import { release } from 'node:os'
import { SandboxError } from '../kit/errors.ts'

/**
 * Folders that are searched for launchers. PATH is not used, because isolated commands may be able to write to
 * a folder in it.
 */
const TOOL_FOLDERS = [
  '/usr/bin',
  '/bin',
  '/usr/sbin',
  '/sbin',
  '/usr/local/bin',
  '/run/current-system/sw/bin',
]

export const lookUpTool = (name: string): string | undefined =>
  TOOL_FOLDERS.map((folder) => `${folder}/${name}`).find(existsSync)

/** Returns the absolute path of a launcher. Throws if it is not installed. */
export function findTool(name: string): string {
  const found = lookUpTool(name)
  if (found === undefined) throw new SandboxError('isolation_unavailable', `${name} is not installed`)
  return found
}

/** Returns the command that enables user namespaces, if this machine forbids them. */
export function userNamespaceRemedy(): string | undefined {
  if (sysctl('kernel/apparmor_restrict_unprivileged_userns') === '1')
    return 'sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (or an AppArmor profile with "userns")'
  if (sysctl('kernel/unprivileged_userns_clone') === '0')
    return 'sysctl -w kernel.unprivileged_userns_clone=1'
  if (sysctl('user/max_user_namespaces') === '0') return 'sysctl -w user.max_user_namespaces=15000'
  return undefined
}

function sysctl(name: string): string | undefined {
  const path = `/proc/sys/${name}`
  return existsSync(path) ? readFileSync(path, 'utf8').trim() : undefined
}

/**
 * Since Linux 6.14, each PID namespace has its own `pid_max`. On older kernels, writing it would change the
 * host's.
 */
export function hasNamespacedPidMax(kernel: string = release()): boolean {
  const [major = 0, minor = 0] = kernel.split('.').map(Number)
  return major > 6 || (major === 6 && minor >= 14)
}

export const isRoot = (): boolean => process.getuid?.() === 0
