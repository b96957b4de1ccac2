import { constants } from 'node:fs'
import { mkdir, open, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ExecRequest } from '../../contracts/exec.ts'
import type { Executor, Layout } from '../executors/executor.ts'
import type { Selection } from '../executors/select.ts'
import { errnoOf, SandboxError } from '../kit/errors.ts'
import type { Log } from '../kit/log.ts'

/** The files that a git script can see. */
export interface GitPlace {
  /** Absolute path of the folder mounted read-only at `/workspace`. */
  readonly workspace: string
  readonly mounts: Layout['mounts']
  /** A folder of the service that holds the inputs (`/run/in`) and outputs (`/run/out`). */
  readonly scratch: string
}

export interface GitScript {
  readonly script: string
  readonly environment?: Readonly<Record<string, string>>
  readonly timeoutMs: number
}

export interface GitOutput {
  readonly exitCode: number | null
  readonly stdout: string
  /** Git's error output, truncated, for error messages. */
  readonly stderr: string
  /** Reads a file that the script wrote: a regular file of at most `maxBytes`. Undefined if it does not exist. */
  read(name: string, maxBytes: number): Promise<Buffer | undefined>
}

/** A sandbox for several scripts on the same files. */
export interface GitSession {
  /** Writes a file to `/run/in`. */
  write(name: string, content: string | Uint8Array): Promise<void>
  /** Runs a script. Deletes the outputs of earlier scripts first. */
  run(script: GitScript): Promise<GitOutput>
}

/** Opens a sandbox, passes it to `work`, and closes it. */
export type RunGit = <T>(place: GitPlace, work: (session: GitSession) => Promise<T>) => Promise<T>

export const OUT = '/run/out'
export const IN = '/run/in'
export const NO_GIT = 127
const MAX_STDERR = 2_000

/** Settings that apply to every git process, regardless of the git directory's configuration. */
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
 * Prepended to every script. Git reads only the configuration of the directory that the script names, runs no
 * hooks, replaces no objects, and uses bounded memory.
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
 * Runs git on files that an agent may have written, isolated like the agent's commands: no network, and a
 * read-only working tree. Throws `isolation_unavailable` if this machine cannot isolate commands.
 */
export function createGitSandbox({ select, toolRoots, log }: GitSandboxOptions): RunGit {
  return async ({ workspace, mounts, scratch }, work) => {
    const { backend, detection } = await select()
    if (!detection.isolation.isRealIsolation)
      throw new SandboxError('isolation_unavailable', 'nothing isolates git on this machine')
    const [input, out] = [join(scratch, 'in'), join(scratch, 'out')]
    for (const folder of [input, out]) await mkdir(folder, { recursive: true, mode: 0o700 })
    const own = [
      { source: input, target: IN, writable: false },
      { source: out, target: OUT, writable: true },
    ]
    const layout = { mounts: [...mounts, ...own], readOnly: [], environment: {} }
    const executor = await backend.create({ workspace, toolRoots, layout, log })
    try {
      return await work({
        // latin1 keeps one byte per character, because paths are bytes.
        write: (name, content) => writeFile(join(input, name), content, 'latin1'),
        run: (script) => runScript(executor, script, out),
      })
    } finally {
      await executor.close()
    }
  }
}

async function runScript(
  executor: Executor,
  { script, environment = {}, timeoutMs }: GitScript,
  out: string,
): Promise<GitOutput> {
  for (const name of await readdir(out)) await rm(join(out, name), { recursive: true, force: true })
  const pieces = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] }
  const request = { command: PREAMBLE + script, environment, timeoutMs, readOnly: ['.'] }
  const { exitCode, message } = await executor.run(ExecRequest.parse(request), {
    onChunk: (stream, bytes) => void pieces[stream].push(bytes),
  })
  const said = Buffer.concat(pieces.stderr).toString('utf8').trim() || (message ?? '')
  return {
    exitCode,
    stdout: Buffer.concat(pieces.stdout).toString('latin1'),
    stderr: said.slice(0, MAX_STDERR),
    read: (name, maxBytes) => readOutput(join(out, name), maxBytes),
  }
}

/** The script's output is as untrusted as its input, so no link is followed. */
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
