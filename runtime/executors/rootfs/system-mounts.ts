import { existsSync, readdirSync, realpathSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { SandboxError } from '../../kit/errors.ts'
import { commandShell } from '../command-shell.ts'
import { normalPath, pathIdentity } from './host-paths.ts'
import { bindReadOnly, isWithin, type Mount, SANDBOX_PATHS } from './mounts.ts'

/** Folders of the host's `/etc` without keys: links of alternatives, public certificates, settings of runtimes. */
const ETC_FOLDERS = ['alternatives', 'crypto-policies', 'fonts', 'ssl/certs', 'pki/ca-trust', 'pki/tls/certs']
const ETC_PATTERN = /^java-\d+-openjdk$/

/** Places through which a command would reach the host's kernel, devices or services. */
const NEVER_MOUNTED = ['/proc', '/sys', '/dev', '/run', '/var/run']

/** The read-only system that every command sees. Looked up once for the life of an executor. */
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

/** What the resolver needs when a command may use the network; links lead to their targets' contents. */
export function resolverMounts(): Mount[] {
  return ['/etc/resolv.conf', '/etc/hosts']
    .filter(existsSync)
    .map((path) => bindReadOnly(realpathSync(path), path))
}

/** The operator's tool folders, at their own paths. Throws `invalid_config` for one that would open the sandbox. */
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
  /** Where commands would see the folder; normalised. */
  readonly path: string
  readonly real: string
}

/** Why a folder of the host may not be shown to commands; undefined when it may. */
export function placeProblem({ path, real }: Place, workspace: string): string | undefined {
  if (isWithin(workspace, real)) return 'contains the workspace'
  const forbidden = NEVER_MOUNTED.find((place) => isWithin(real, place) || isWithin(path, place))
  if (forbidden) return `${forbidden} is never shown to commands`
  if (isWithin(path, SANDBOX_PATHS.workspace)) return 'lies where commands see the workspace'
  return undefined
}

/** Tool folders first, then the system's; a folder with a `bin` stands for it. */
export function searchPath(toolRoots: readonly string[]): string {
  const tools = toolRoots.map((root) => {
    const bin = join(root, 'bin')
    return statSync(bin, { throwIfNoEntry: false })?.isDirectory() ? bin : root
  })
  return [...tools, ...'/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin'.split(':')].join(':')
}

/** The environment of every command before what its request adds. Nothing of the host's is in it. */
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
