import { randomUUID } from 'node:crypto'
import { statSync } from 'node:fs'
import type { ExecRequest, Isolation } from '../../contracts/exec.ts'
import { createExecutor } from './create-executor.ts'
import type { Backend, Executor, ExecutorOptions } from './executor.ts'
import { type StrayOptions, Strays } from './process/strays.ts'
import type { Launch } from './process/supervise.ts'
import { COMMAND_LIMITS, witnessScript } from './process/witness.ts'
import { baseEnvironment } from './rootfs/system-mounts.ts'

/** By this entry of its environment a process is found that left its group. */
const MARKER = 'AGENTWEAVER_COMMAND_ID'

/** Pods of one node that share its kernel have the same user: how many processes a pod has is the kubelet's to say. */
const LIMITS = { ...COMMAND_LIMITS, processes: undefined }

export interface PodBackendOptions extends StrayOptions {
  readonly isolation: Isolation
  readonly home: string
}

/**
 * Commands as processes of a pod's toolbox: the pod is the isolation. The process that runs them must adopt orphans,
 * so that whatever a command leaves behind is found, however it hides.
 */
export function createPodBackend(options: PodBackendOptions): Backend {
  return {
    name: 'kubernetes-sandbox-claim',
    create: async (given) => createPodExecutor(given, options),
    detect: async () => ({ ok: true, isolation: options.isolation, warnings: [] }),
  }
}

function createPodExecutor({ workspace, log }: ExecutorOptions, options: PodBackendOptions): Executor {
  const env = baseEnvironment([], options.home)
  const script = witnessScript(LIMITS)
  const strays = new Strays(options)
  const launch = async (request: ExecRequest, directory: string): Promise<Launch | { problem: string }> => {
    const problem = unkept(request)
    if (problem !== undefined) return { problem }
    const id = randomUUID()
    const marker = `${MARKER}=${id}`
    strays.begin(marker)
    return {
      file: '/bin/sh',
      args: ['-c', script, 'sh', workspace, directory, request.command],
      env: { ...env, [MARKER]: id },
      hasPidNamespace: false,
      marker,
      onStarted: (pid) => strays.started(marker, pid),
      onEnded: async () => {
        if (!(await strays.end(marker))) log.warn('a command left processes that outrun their end', { id })
      },
    }
  }
  return createExecutor({ isolation: options.isolation, launch, remove: async () => undefined, log })
}

/** What a request asks for and a process of the pod cannot be given is refused, never ignored. */
function unkept({ denied, readOnly, readOnlyRoots }: ExecRequest): string | undefined {
  if (denied.length > 0) return 'a sandbox pod cannot hide paths from a command'
  if (readOnly.length > 0) return 'a sandbox pod cannot make paths read-only for a command'
  const absent = readOnlyRoots.find((root) => !statSync(root, { throwIfNoEntry: false })?.isDirectory())
  return absent === undefined ? undefined : `this sandbox pod has no folder ${absent}`
}
