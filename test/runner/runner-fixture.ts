import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { ExecRequest, type ExecResult } from '../../contracts/exec.ts'
import type { ExecIo } from '../../contracts/toolbox.ts'
import type { RunnerLink } from '../../runtime/agent-host/toolbox/runner-link.ts'
import { type SpawnRunnerOptions, spawnRunner } from '../../runtime/agent-host/toolbox/spawn-runner.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { bundledRunner } from '../helpers/bundled-host.ts'

/** The runner is the same for every backend, and `direct` works on every machine. */
const BACKEND = 'direct'

export interface RunnerFixture {
  readonly link: RunnerLink
  readonly root: string
  /** Process id of the runner as seen from the test. */
  readonly pid: number
  readonly run: (command: string, more?: Partial<ExecRequest> & Partial<ExecIo>) => Promise<Finished>
}

export interface Finished {
  readonly result: ExecResult
  readonly stdout: string
  readonly stderr: string
}

/** A folder with a secret next to the root. Both are deleted after the test. */
export function aRoot(): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'runner-')))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, 'secret.txt'), 'what lies outside')
  return mkdtempSync(join(folder, 'root-'))
}

type RunnerChange = Partial<SpawnRunnerOptions> & {
  /** Fills the workspace before the runner opens it. */
  readonly prepare?: (root: string) => void
}

/** A real runner process over a real socket pair, with an open workspace that is empty unless prepared. */
export async function aRunner({ prepare, ...change }: RunnerChange = {}): Promise<RunnerFixture> {
  const before = new Set(childPids())
  const entry = await bundledRunner()
  const link = await spawnRunner({ backend: BACKEND, toolRoots: [], log: silentLog, entry, ...change })
  onTestFinished(() => link.close())
  const [pid] = childPids().filter((child) => !before.has(child))
  if (pid === undefined) throw new Error('no runner process was started')
  const root = aRoot()
  prepare?.(root)
  await link.open(root)
  return { link, root, pid, run: (command, more = {}) => runCommand(link, command, more) }
}

async function runCommand(
  link: RunnerLink,
  command: string,
  { onChunk, stdin, signal, ...request }: Partial<ExecRequest> & Partial<ExecIo>,
): Promise<Finished> {
  const kept = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] }
  const result = await link.exec(ExecRequest.parse({ command, ...request }), {
    onChunk:
      onChunk ??
      ((stream, bytes) => {
        kept[stream].push(bytes)
      }),
    ...(stdin ? { stdin } : {}),
    ...(signal ? { signal } : {}),
  })
  const textOf = (parts: Uint8Array[]) => Buffer.concat(parts).toString()
  return { result, stdout: textOf(kept.stdout), stderr: textOf(kept.stderr) }
}

/** Ids of this process's child processes that are runners. */
function childPids(): number[] {
  const own = `/proc/${process.pid}/task`
  const children = readdirSync(own).flatMap((task) =>
    readFileSync(join(own, task, 'children'), 'utf8')
      .trim()
      .split(' ')
      .filter(Boolean)
      .map(Number),
  )
  return children.filter((pid) => commandLineOf(pid).includes('runner/server.cjs'))
}

/** Empty if the process is gone. */
export function commandLineOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code !== 'ENOENT' && error.code !== 'ESRCH')
      throw error
    return ''
  }
}
