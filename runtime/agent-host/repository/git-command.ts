import { EXEC_LIMITS, ExecRequest, type ExecResult } from '../../../contracts/exec.ts'
import type { ExecIo, Toolbox } from '../../../contracts/toolbox.ts'

/** The part of a toolbox that git needs. */
export type GitToolbox = Pick<Toolbox, 'exec'>

/**
 * Settings of every git process that the product starts in a workspace. No configuration of the machine is read. A
 * repository can neither name a program, nor another protocol, nor a path that some file system reads as `.git`.
 */
const SETTINGS = {
  'core.hooksPath': '/dev/null',
  'core.fsmonitor': 'false',
  'core.attributesFile': '/dev/null',
  'core.protectHFS': 'true',
  'core.protectNTFS': 'true',
  'credential.helper': '',
  'fetch.fsckObjects': 'true',
  // Old, harmless faults of real repositories.
  'fetch.fsck.badTimezone': 'ignore',
  'fetch.fsck.missingSpaceBeforeDate': 'ignore',
  'fetch.fsck.zeroPaddedFilemode': 'ignore',
  // One pack, whose size the file limit of the shell bounds.
  'fetch.unpackLimit': '1',
  'fetch.recurseSubmodules': 'false',
  'submodule.recurse': 'false',
  'gc.auto': '0',
  'maintenance.auto': 'false',
  'advice.addEmbeddedRepo': 'false',
  // A server that sends less than 1,000 bytes a second for a minute.
  'http.lowSpeedLimit': '1000',
  'http.lowSpeedTime': '60',
  'safe.directory': '*',
} as const

const options = Object.entries(SETTINGS).map(([key, value]) => `-c '${key}=${value}'`)

/**
 * Prepended to every script. `git` keeps the variables of the egress proxy, which name the placeholder of the credential.
 * Large files of Git LFS stay pointers.
 */
const PREAMBLE = `
set -u
export LC_ALL=C GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0
export GIT_NO_REPLACE_OBJECTS=1 GIT_OPTIONAL_LOCKS=0 GIT_NO_LAZY_FETCH=1 GIT_ALLOW_PROTOCOL=https GIT_LFS_SKIP_SMUDGE=1
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES
command -v git >/dev/null || { echo 'git is not installed in the sandbox' >&2; exit 127; }
git() { command git ${options.join(' ')} "$@"; }
`

export const NO_GIT = 127

export interface GitScript {
  readonly script: string
  readonly environment?: Readonly<Record<string, string>>
  readonly network?: boolean
  readonly timeoutMs: number
}

/** Runs a script in the workspace. Its failures are in the result. */
export function runGit(
  toolbox: GitToolbox,
  { script, environment = {}, network = false, timeoutMs }: GitScript,
  io: ExecIo,
): Promise<ExecResult> {
  const request = {
    command: PREAMBLE + script,
    environment,
    network,
    timeoutMs,
    maxOutputBytes: EXEC_LIMITS.maxMaxOutputBytes,
  }
  return toolbox.exec(ExecRequest.parse(request), io)
}
