import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { ExecRequest } from '../contracts/exec.ts'
import { bwrapBackend } from '../runtime/executors/bwrap.ts'
import type { Backend } from '../runtime/executors/executor.ts'
import { namespacesBackend } from '../runtime/executors/namespaces.ts'
import { silentLog } from '../runtime/kit/log.ts'
import { type Bench, type Figure, figure, timeInTurn } from './harness.ts'

const ROUNDS = 150
const WARM_UP = 10
/** Bare bubblewrap returns before its namespaces are taken down; we return after. */
const SETTLE_MS = 10

/** The namespaces and the file system of a sandbox, and nothing else of what we promise. */
const bareArguments = (workspace: string) => [
  ...[
    '--unshare-user',
    '--unshare-pid',
    '--unshare-ipc',
    '--unshare-uts',
    '--unshare-cgroup',
    '--unshare-net',
  ],
  ...[
    '--new-session',
    '--die-with-parent',
    '--clearenv',
    '--ro-bind',
    '/usr',
    '/usr',
    '--symlink',
    'usr/bin',
    '/bin',
  ],
  ...['--symlink', 'usr/lib', '/lib', '--symlink', 'usr/lib64', '/lib64', '--ro-bind', '/etc', '/etc'],
  ...[
    '--proc',
    '/proc',
    '--dev',
    '/dev',
    '--tmpfs',
    '/tmp',
    '--tmpfs',
    '/home',
    '--bind',
    workspace,
    '/workspace',
  ],
  ...['--chdir', '/workspace', '--', '/bin/sh', '-c', 'true'],
]

async function bareBwrap(workspace: string): Promise<void> {
  const child = spawn('/usr/bin/bwrap', bareArguments(workspace), {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {},
  })
  child.stdout.resume()
  child.stderr.resume()
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`bare bwrap ended with ${code}; this benchmark needs bubblewrap`)
}

async function compare(backend: Backend, bar: number): Promise<Figure> {
  const workspace = await realpath(await mkdtemp(join(tmpdir(), 'agentweaver-bench-')))
  const toolRoots = [dirname(dirname(process.execPath))]
  const executor = await backend.create({ workspace, toolRoots, log: silentLog })
  const request = ExecRequest.parse({ command: 'true' })
  const value = async () => {
    const result = await executor.run(request, { onChunk: () => undefined })
    if (result.exitCode !== 0) throw new Error(`${backend.name}: ${result.message ?? result.exitCode}`)
  }
  try {
    const baseline = () => bareBwrap(workspace)
    const samples = await timeInTurn({
      rounds: ROUNDS,
      warmUp: WARM_UP,
      settleMs: SETTLE_MS,
      baseline,
      value,
    })
    return figure({ name: `exec-local/${backend.name}`, unit: 'ms', bar, samples })
  } finally {
    await executor.close()
    await rm(workspace, { recursive: true })
  }
}

/** `true` through our executor, against bare bubblewrap with the same namespaces. */
export const bench: Bench = {
  name: 'exec-local',
  // The second rung starts six programs where bubblewrap is one; its bar only keeps it from getting worse.
  run: async () => [await compare(bwrapBackend, 1.5), await compare(namespacesBackend, 6)],
}
