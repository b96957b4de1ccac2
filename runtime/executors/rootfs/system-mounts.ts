import { existsSync, readdirSync, realpathSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { SandboxError } from '../../kit/errors.ts'
import { commandShell } from '../command-shell.ts'
import { normalPath, pathIdentity } from './host-paths.ts'
import { bindReadOnly, isWithin, type Mount, SANDBOX_PATHS } from './mounts.ts'

/** Folders in the host's `/etc` without keys: alternatives, public certificates, runtime settings. */
const ETC_FOLDERS = ['alternatives', 'crypto-policies', 'fonts', 'ssl/certs', 'pki/ca-trust', 'pki/tls/certs']
const ETC_PATTERN = /^java-\d+-openjdk$/

/** Folders that would give a command access to the host's kernel, devices or services. */
const NEVER_MOUNTED = ['/proc', '/sys', '/dev', '/run', '/var/run']

/** The read-only system mounts of every command. Computed once per executor. */
export function systemMounts(systemFolders: readonly string[]): Mount[] {
  const etc = [...ETC_FOLDERS, ...readdirSync('/etc').filter((name) => ETC_PATTERN.test(name))]
  return [
    bindReadOnly('/usr'),
    ...systemFolders.map((folder) => bindReadOnly(folder)),
    ...etc
      .map((name) => `/etc/${name}`)
      .filter(existsSync)
      .map((path) => bindReadOnly(path)),
  ]
}

/**
 * Returns the mounts of the operator's tool folders, at their own paths. Throws `invalid_config` for a folder
 * that would weaken the sandbox.
 */
export function toolMounts(toolRoots: readonly string[], workspace: string): Mount[] {
  return toolRoots.flatMap((root) => {
    const path = normalPath(root)
    const isFolder = path.startsWith('/') && statSync(path, { throwIfNoEntry: false })?.isDirectory()
    const real = isFolder ? realpathSync(path) : path
    const problem = isFolder
      ? placeProblem({ path, real }, workspace)
      : 'is not the absolute path of a folder'
    if (problem) throw new SandboxError('invalid_config', `tool folder ${root}: ${problem}`)
    return isWithin(path, '/usr') ? [] : [bindReadOnly(real, path, pathIdentity(real))]
  })
}

interface Place {
  /** Normalised path at which commands would see the folder. */
  readonly path: string
  readonly real: string
}

/** Returns why a host folder must not be shown to commands, or undefined. */
export function placeProblem({ path, real }: Place, workspace: string): string | undefined {
  if (isWithin(workspace, real)) return 'contains the workspace'
  const forbidden = NEVER_MOUNTED.find((place) => isWithin(real, place) || isWithin(path, place))
  if (forbidden) return `${forbidden} is never shown to commands`
  if (isWithin(path, SANDBOX_PATHS.workspace)) return 'lies where commands see the workspace'
  return undefined
}

/** PATH: tool folders first, then the system's. If a tool folder has a `bin`, the `bin` is used. */
export function searchPath(toolRoots: readonly string[]): string {
  const tools = toolRoots.map((root) => {
    const bin = join(root, 'bin')
    return statSync(bin, { throwIfNoEntry: false })?.isDirectory() ? bin : root
  })
  return [...tools, ...'/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin'.split(':')].join(':')
}

/**
 * The environment of every command before the request's own variables. Contains nothing from the host's
 * environment.
 */
export function baseEnvironment(toolRoots: readonly string[], home: string): Record<string, string> {
  return {
    PATH: searchPath(toolRoots),
    HOME: home,
    USER: 'sandbox',
    LOGNAME: 'sandbox',
    SHELL: commandShell().file,
    LANG: 'C.UTF-8',
    TERM: 'dumb',
    TMPDIR: '/tmp',
  }
}
