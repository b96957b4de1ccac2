import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Layout } from '../executors/executor.ts'
import { isWithin, SANDBOX_PATHS } from '../executors/rootfs/mounts.ts'
import { SandboxError } from '../kit/errors.ts'
import type { Repository } from './find-git.ts'
import { NO_GIT, type RunGit } from './git-sandbox.ts'
import { kindOf, readData } from './read-data.ts'

/** One effective value of git's configuration. */
export interface ConfigEntry {
  readonly scope: string
  /** The file that sets the value, absolute or relative to the folder. */
  readonly file: string | undefined
  /** Section and variable, both in lower case. */
  readonly key: string
  readonly value: string
}

/** The user whose git configuration applies in addition to the repository's. */
export interface GitUser {
  readonly home: string
  /** `XDG_CONFIG_HOME`, if set. */
  readonly configHome?: string | undefined
  /** `GIT_CONFIG_GLOBAL`, if set. */
  readonly globalConfig?: string | undefined
}

export interface ConfigurationPlace {
  readonly folder: string
  /** The folder itself, or the root of the repository that contains it. */
  readonly shown: string
  /** Whether the folder is a repository or lies in one. */
  readonly isRepository: boolean
  readonly repository: Repository | undefined
  readonly user: GitUser
  /** A folder of the service for temporary files of this step. */
  readonly scratch: string
}

const SYSTEM_CONFIG = '/etc/gitconfig'
const MAX_SYSTEM_BYTES = 1_048_576
const TIMEOUT_MS = 15_000

/** Git parses its own files. `config --list` does not run anything that they name. */
const LIST = `
unset GIT_CONFIG_NOSYSTEM
if [ -n "$USER_CONFIG" ]; then export GIT_CONFIG_GLOBAL="$USER_CONFIG"; else unset GIT_CONFIG_GLOBAL; fi
cd "$FOLDER" || exit 1
# Of a repository that it cannot read, git would list nothing and say nothing.
if [ -n "$EXPECTED" ]; then git rev-parse --git-dir >/dev/null || exit 1; fi
exec git config --list --includes --show-scope --show-origin -z
`

/**
 * Reads git's effective configuration in a folder, includes expanded. Git runs in a sandbox that shows the
 * user's files at their own paths, read-only. Undefined if git is not installed.
 */
export async function readConfiguration(
  runGit: RunGit,
  place: ConfigurationPlace,
): Promise<ConfigEntry[] | undefined> {
  const { folder, isRepository, user, scratch } = place
  const empty = join(scratch, 'empty')
  const system = join(scratch, 'system')
  await mkdir(empty, { recursive: true })
  await mkdir(system, { recursive: true })
  const systemConfig = await copyOf(SYSTEM_CONFIG, join(system, 'gitconfig'))
  // A folder below `/workspace` must keep its own path.
  const workspace = isInWorkspace(folder) ? SANDBOX_PATHS.workspace : empty
  const mounts = [...(await userFolders(place)), { source: system, target: '/run/system', writable: false }]
  const environment = {
    FOLDER: folder,
    HOME: user.home,
    ...(user.configHome !== undefined && { XDG_CONFIG_HOME: user.configHome }),
    USER_CONFIG: user.globalConfig ?? '',
    EXPECTED: isRepository ? 'yes' : '',
    GIT_CONFIG_SYSTEM: systemConfig ? '/run/system/gitconfig' : '/dev/null',
  }
  const { exitCode, stdout, stderr } = await runGit({ workspace, mounts, scratch }, (git) =>
    git.run({ script: LIST, environment, timeoutMs: TIMEOUT_MS }),
  )
  if (exitCode === NO_GIT) return undefined
  if (exitCode !== 0)
    throw new SandboxError('workspace_invalid', `git's configuration of ${folder} cannot be read: ${stderr}`)
  return parseList(stdout)
}

const isInWorkspace = (path: string) => isWithin(path, SANDBOX_PATHS.workspace)

async function copyOf(from: string, to: string): Promise<boolean> {
  const content = await readData(from, MAX_SYSTEM_BYTES)
  if (content) await writeFile(to, content)
  return content !== undefined
}

/** The outermost folders that git must read, each mounted at its own path. */
async function userFolders({ shown, repository, user }: ConfigurationPlace): Promise<Layout['mounts']> {
  const { home, configHome, globalConfig } = user
  const global = globalConfig === undefined ? undefined : dirname(globalConfig)
  const wanted = [home, configHome, global, shown, repository?.gitDir, repository?.commonDir].filter(
    (path) => path !== undefined && path !== '/' && !isWithin(path, '/dev') && !isInWorkspace(path),
  ) as string[]
  const outermost = wanted.filter(
    (path, index) =>
      !wanted.some((other, at) => at !== index && isWithin(path, other) && (path !== other || at < index)),
  )
  const there: string[] = []
  for (const path of outermost) if ((await kindOf(path)) === 'folder') there.push(path)
  return there.map((path) => ({ source: path, target: path, writable: false }))
}

/** `scope NUL origin NUL key LF value NUL`, in bytes. A variable without a value has no line feed. */
export function parseList(output: string): ConfigEntry[] {
  const fields = output.split('\0')
  const entries: ConfigEntry[] = []
  for (let at = 0; at + 2 < fields.length; at += 3) {
    const [scope = '', origin = '', setting = ''] = fields.slice(at, at + 3).map(toText)
    const end = setting.indexOf('\n')
    const key = end < 0 ? setting : setting.slice(0, end)
    const value = end < 0 ? 'true' : setting.slice(end + 1)
    if (scope === 'command') continue
    entries.push({ scope, file: origin.startsWith('file:') ? origin.slice(5) : undefined, key, value })
  }
  return entries
}

const toText = (bytes: string) => Buffer.from(bytes, 'latin1').toString('utf8')
