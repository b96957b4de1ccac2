import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ExecRequest } from '../../contracts/exec.ts'
import { commandShell } from './command-shell.ts'
import { createExecutor, type Order } from './create-executor.ts'
import type { Backend, ExecutorOptions, Layout } from './executor.ts'
import { supervisorScript } from './process/command-supervisor.ts'
import { baseEnvironment } from './rootfs/system-mounts.ts'

const ISOLATION = {
  backend: 'direct',
  isRealIsolation: false,
  enforcesEgress: false,
  shell: commandShell().name,
  reason: 'the operator allows commands without isolation',
} as const

/** Environment variable that identifies processes of a command that left its process group. */
const MARKER = 'AGENTWEAVER_COMMAND_ID'

/** Rejects requests for protections that direct execution cannot provide, instead of ignoring them. */
function unkept(request: ExecRequest, layout: Layout | undefined): string | undefined {
  if (layout && layout.mounts.length + layout.readOnly.length > 0)
    return 'direct execution cannot hide the real git directory from a command'
  if (request.denied.length > 0) return 'direct execution cannot hide paths from a command'
  if (request.readOnly.length > 0) return 'direct execution cannot make paths read-only for a command'
  return undefined
}

async function create({ workspace, toolRoots, layout, onUsage, log }: ExecutorOptions) {
  const home = await mkdtemp(join(tmpdir(), 'agentweaver-home-'))
  const env = baseEnvironment(toolRoots, home)
  const launch = async ({ request, directory }: Order) => {
    const problem = unkept(request, layout)
    if (problem !== undefined) return { problem }
    const id = randomUUID()
    return {
      file: '/bin/sh',
      args: ['-c', supervisorScript(), 'sh', workspace, directory, request.command],
      env: { ...env, [MARKER]: id },
      hasPidNamespace: false,
      marker: `${MARKER}=${id}`,
    }
  }
  const remove = () => rm(home, { recursive: true, force: true })
  const writable = [workspace, home]
  return createExecutor({
    ...{ isolation: ISOLATION, hasSyscallFilter: false, launch, writable, onUsage, remove, log },
  })
}

/** The last choice: a process of this user, with limits and cleanup but without isolation. */
export const directBackend: Backend = {
  name: 'direct',
  create,
  async detect() {
    return {
      ok: true,
      isolation: ISOLATION,
      warnings: [
        {
          category: 'no-isolation',
          message: 'commands run as this user and can reach all its files, processes and secrets',
        },
        { category: 'network-unrestricted', message: 'every command can reach the network, allowed or not' },
      ],
    }
  },
}
