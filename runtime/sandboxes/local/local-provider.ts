import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname } from 'node:path'
import { z } from 'zod'
import type { BackendName } from '../../../contracts/exec.ts'
import { type Selection, selectBackend } from '../../executors/select.ts'
import { bestEffort } from '../../kit/best-effort.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import type { BoundSandbox, ClaimRequest, SandboxProvider } from '../provider.ts'
import { type HostProcess, type HostProcessOptions, startHostProcess } from './host-process.ts'
import { killGroup, startTimeOf } from './process-group.ts'

export type LocalProviderOptions = {
  /** Public keys with which an AgentHost checks tickets. */
  readonly jwksFile: string
  /** Sandboxes kept in standby. */
  readonly warm: number
  readonly only?: BackendName
  readonly allowDirect: boolean
  readonly toolRoots: readonly string[]
  readonly logLevel: HostProcessOptions['logLevel']
  readonly log: Log
}

const NAMESPACE = 'local'

const Handle = z.object({ directory: z.string(), pid: z.int().positive(), startTime: z.string() })

/** Sandboxes on this machine: one AgentHost process each, warm ones in standby, the best isolation that proves itself. */
export function createLocalProvider(options: LocalProviderOptions): SandboxProvider {
  const { log } = options
  const standby: Promise<HostProcess>[] = []
  const live = new Set<HostProcess>()
  let selection: Selection | undefined
  let closed = false

  const isolation = (): Selection => {
    if (selection) return selection
    throw new SandboxError('unavailable', 'the local provider is not started')
  }

  async function start(): Promise<HostProcess> {
    const { jwksFile, toolRoots, logLevel } = options
    const host = await startHostProcess({
      jwksFile,
      toolRoots,
      logLevel,
      backend: isolation().backend.name,
      log,
    })
    live.add(host)
    host.exited.then(
      () => live.delete(host),
      () => live.delete(host),
    )
    return host
  }

  function refill(): void {
    while (!closed && standby.length < options.warm) {
      const host = start()
      host.catch((error) => log.error('a warm sandbox could not be started', { error }))
      standby.push(host)
    }
  }

  /** A standby process that is alive, or a new one. */
  async function take(): Promise<{ host: HostProcess; launch: 'warm' | 'cold' }> {
    for (let next = standby.shift(); next; next = standby.shift()) {
      const host = await next.catch(() => undefined)
      if (host && live.has(host)) return { host, launch: 'warm' }
    }
    return { host: await start(), launch: 'cold' }
  }

  async function claim(request: ClaimRequest): Promise<BoundSandbox> {
    const startedAt = performance.now()
    const { host, launch } = await take()
    refill()
    if (request.signal.aborted) {
      await host.destroy()
      throw request.signal.reason
    }
    const { detection } = isolation()
    const { instanceId, handle, workspace } = host
    let released: Promise<void> | undefined
    return {
      namespace: NAMESPACE,
      claimName: request.claimName,
      podName: `local-${instanceId.slice(0, 8)}`,
      instanceId,
      launch,
      bindMs: performance.now() - startedAt,
      isolation: detection.isolation,
      warnings: detection.warnings.map((warning) => ({ ...warning, backend: detection.isolation.backend })),
      address: { socketPath: host.socketPath },
      workingDirectory: (path) => path ?? workspace,
      handle,
      lost: host.exited,
      release: () => {
        released ??= host.destroy()
        return released
      },
    }
  }

  return {
    name: 'local',
    async start() {
      const { only, allowDirect, toolRoots } = options
      selection = await selectBackend({ allowDirect, toolRoots, ...(only && { only }) })
      refill()
    },
    claim,
    async collect(handle) {
      const { directory, pid, startTime } = Handle.parse(handle)
      if (startTimeOf(pid) === startTime) killGroup(pid)
      // The row may be old and the folder's name somebody else's by now: only what this provider makes is removed.
      if (dirname(directory) === tmpdir()) await rm(directory, { recursive: true, force: true })
    },
    async close() {
      closed = true
      const waiting = await Promise.allSettled(standby)
      for (const host of waiting) if (host.status === 'fulfilled') live.add(host.value)
      await Promise.all([...live].map((host) => bestEffort(log, 'end a sandbox', () => host.destroy())))
    },
  }
}
