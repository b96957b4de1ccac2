import { constants } from 'node:fs'
import { access, open } from 'node:fs/promises'
import { join } from 'node:path'
import type { SandboxSettingsPatch } from '../../../contracts/policy.ts'
import { parseRepositorySettings } from '../../../policies/agent/settings.ts'
import { errnoOf, SandboxError } from '../../kit/errors.ts'

/** A command in the workspace, in isolation: git's own configuration there is not to be trusted. */
export type RunIsolated = (
  workspace: string,
  command: string,
) => Promise<{ exitCode: number | null; stdout: string }>

export const SETTINGS_FILE = '.agentweaver/settings.yml'

const NO_GIT = 127
const NO_COMMIT = 3
const NOT_IN_COMMIT = 4
const READ_FROM_HEAD = [
  `command -v git >/dev/null || exit ${NO_GIT}`,
  'git() { command git -c safe.directory=\'*\' "$@"; }',
  `git rev-parse -q --verify HEAD >/dev/null 2>&1 || exit ${NO_COMMIT}`,
  `git cat-file -e HEAD:${SETTINGS_FILE} 2>/dev/null || exit ${NOT_IN_COMMIT}`,
  `git cat-file blob HEAD:${SETTINGS_FILE}`,
].join('\n')

/** The patch that a text of the settings file means; a malformed one refuses the run with line and reason. */
export function parseSettingsText(text: string | undefined): SandboxSettingsPatch | undefined {
  if (text === undefined) return undefined
  const parsed = parseRepositorySettings(text)
  if (parsed.ok) return parsed.patch
  throw new SandboxError('workspace_invalid', `${SETTINGS_FILE}, line ${parsed.line}: ${parsed.reason}`)
}

/**
 * A repository's settings as its base commit has them, since the agent can edit the working file. Where there is
 * no commit to read from, the working file counts as it is before the run, and is read once.
 */
export async function readRepositorySettings(
  workspace: string,
  run: RunIsolated,
): Promise<SandboxSettingsPatch | undefined> {
  if (!(await exists(join(workspace, '.git')))) return parseSettingsText(await readWorkingFile(workspace))
  const { exitCode, stdout } = await run(workspace, READ_FROM_HEAD)
  if (exitCode === 0) return parseSettingsText(stdout)
  if (exitCode === NOT_IN_COMMIT) return undefined
  if (exitCode === NO_GIT || exitCode === NO_COMMIT)
    return parseSettingsText(await readWorkingFile(workspace))
  throw new SandboxError(
    'workspace_invalid',
    `${SETTINGS_FILE} of the base commit cannot be read (git ended with ${exitCode})`,
  )
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}

/** Far above any real settings file. */
const MAX_BYTES = 65_536

async function readWorkingFile(workspace: string): Promise<string | undefined> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  try {
    await using file = await open(join(workspace, SETTINGS_FILE), flags)
    const { size } = await file.stat()
    if (size > MAX_BYTES)
      throw new SandboxError('workspace_invalid', `${SETTINGS_FILE} is larger than ${MAX_BYTES} bytes`)
    return await file.readFile('utf8')
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return undefined
    if (error instanceof SandboxError) throw error
    throw unreadable(error)
  }
}

const unreadable = (cause: unknown) =>
  new SandboxError('workspace_invalid', `${SETTINGS_FILE} cannot be read`, { cause })
