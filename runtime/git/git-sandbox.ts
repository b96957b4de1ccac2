import { constants } from 'node:fs'
import { mkdir, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { ExecRequest } from '../../contracts/exec.ts'
import type { Layout } from '../executors/executor.ts'
import type { Selection } from '../executors/select.ts'
import { errnoOf, SandboxError } from '../kit/errors.ts'
import type { Log } from '../kit/log.ts'

/** A shell script of ours that calls git, and what it sees. */
export interface GitScript {
  /** Absolute path of the folder that it sees at `/workspace`, which it cannot write. */
  readonly workspace: string
  readonly mounts: Layout['mounts']
  readonly script: string
  readonly environment?: Readonly<Record<string, string>>
  readonly timeoutMs: number
  /** A folder of its own, seen at `/run/out`, for what it writes. It is made, and emptied before. */
  readonly out: string
}

export interface GitOutput {
  readonly exitCode: number | null
  readonly stdout: string
  /** What git said, cut, for people. */
  readonly stderr: string
  /** A file that the script wrote: a regular one of at most `maxBytes`. Undefined where there is none. */
  read(name: string, maxBytes: number): Promise<Buffer | undefined>
}

export type RunGit = (script: GitScript) => Promise<GitOutput>

export const OUT = '/run/out'
export const NO_GIT = 127
const MAX_STDERR = 2_000

/** Settings that hold for each git of a script, whatever the directory says that it works on. */
const SETTINGS = {
  'core.hooksPath': '/dev/null',
  'core.fsmonitor': 'false',
  'core.attributesFile': '/dev/null',
  'core.commitGraph': 'false',
  'core.alternateRefsCommand': 'true',
  'gc.auto': '0',
  'maintenance.auto': 'false',
  'protocol.allow': 'never',
  'submodule.recurse': 'false',
  'safe.directory': '*',
} as const

const settingLines = Object.entries(SETTINGS).map(
  ([key, value], index) => `GIT_CONFIG_KEY_${index}='${key}' GIT_CONFIG_VALUE_${index}='${value}'`,
)

/**
 * What every script begins with. Git reads no configuration but the one of the directory that the script names, runs
 * no hook, replaces no object, and uses a bounded amount of memory.
 */
const PREAMBLE = `
set -u
ulimit -d 2097152 2>/dev/null
export LC_ALL=C GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1
export GIT_NO_REPLACE_OBJECTS=1 GIT_OPTIONAL_LOCKS=0 GIT_TERMINAL_PROMPT=0 GIT_NO_LAZY_FETCH=1
export GIT_CONFIG_COUNT=${settingLines.length}
export ${settingLines.join(' ')}
`

export interface GitSandboxOptions {
  readonly select: () => Promise<Selection>
  readonly toolRoots: readonly string[]
  readonly log: Log
}

/**
 * Runs git on files that an agent may have written, in the isolation that its commands have: without network, with a
 * working tree that cannot be written. Throws `isolation_unavailable` where nothing isolates.
 */
export function createGitSandbox({ select, toolRoots, log }: GitSandboxOptions): RunGit {
  return async ({ workspace, mounts, script, environment = {}, timeoutMs, out }) => {
    const { backend, detection } = await select()
    if (!detection.isolation.isRealIsolation)
      throw new SandboxError('isolation_unavailable', 'nothing isolates git on this machine')
    await rm(out, { recursive: true, force: true })
    await mkdir(out, { recursive: true, mode: 0o700 })
    const outMount = { source: out, target: OUT, writable: true }
    const layout = { mounts: [...mounts, outMount], readOnly: [], environment: {} }
    const executor = await backend.create({ workspace, toolRoots, layout, log })
    const pieces = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] }
    try {
      const request = ExecRequest.parse({
        command: PREAMBLE + script,
        environment,
        timeoutMs,
        readOnly: ['.'],
      })
      const { exitCode, message } = await executor.run(request, {
        onChunk: (stream, bytes) => void pieces[stream].push(bytes),
      })
      const said = Buffer.concat(pieces.stderr).toString('utf8').trim() || (message ?? '')
      return {
        exitCode,
        stdout: Buffer.concat(pieces.stdout).toString('latin1'),
        stderr: said.slice(0, MAX_STDERR),
        read: (name, maxBytes) => readOutput(join(out, name), maxBytes),
      }
    } finally {
      await executor.close()
    }
  }
}

/** What a script wrote is as little to be trusted as what it read: a link is not followed. */
async function readOutput(path: string, maxBytes: number): Promise<Buffer | undefined> {
  try {
    await using file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    const stats = await file.stat()
    if (!stats.isFile() || stats.size > maxBytes)
      throw new SandboxError('workspace_invalid', `git gave more than ${maxBytes} bytes`)
    return await file.readFile()
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined
    throw error
  }
}
