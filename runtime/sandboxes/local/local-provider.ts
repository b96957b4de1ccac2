import * as z from 'zod'
import type { Pool } from '../../../contracts/diagnostics.ts'
import { EXECUTOR_FOLDER_PREFIX } from '../../executors/rootfs/skeleton.ts'
import type { Selection } from '../../executors/select.ts'
import { bestEffort } from '../../kit/best-effort.ts'
import { sweepOwnedFolders } from '../../kit/owned-folder.ts'
import { startTimeOf } from '../../kit/start-time.ts'
import type { BoundSandbox, ClaimRequest, SandboxProvider } from '../provider.ts'
import { type HostProcess, type HostProcessOptions, startHostProcess } from './host-process.ts'
import { killGroup } from './process-group.ts'
import { removeSandboxFolder, SANDBOX_FOLDER_PREFIX } from './sandbox-folder.ts'

export type LocalProviderOptions = Omit<HostProcessOptions, 'backend'> & {
  /** Sandboxes kept in standby. */
  readonly warm: number
  readonly selectIsolation: () => Promise<Selection>
}

const NAMESPACE = 'local'

/** Delays the start of the next warm sandbox, so that it does not compete with the run that just got one. */
const REFILL_DELAY_MS = 250
const Handle = z.object({ directory: z.string(), pid: z.int().positive(), startTime: z.string() })

/** Sandboxes on this machine: one AgentHost process each, some kept warm, with the strongest isolation that works. */
export class LocalProvider implements SandboxProvider {
  readonly name = 'local'
  readonly namespace = NAMESPACE
  readonly #options: LocalProviderOptions
  readonly #standby: Promise<HostProcess>[] = []
  readonly #starting = new Set<Promise<HostProcess>>()
  /** Sandboxes whose folders are not removed yet, also if their processes have ended. */
  readonly #hosts = new Set<HostProcess>()
  readonly #dead = new WeakSet<HostProcess>()
  readonly #claimed = new Set<HostProcess>()
  #closed = false

  constructor(options: LocalProviderOptions) {
    this.#options = options
  }

  async start(): Promise<void> {
    // The service itself runs git in executors.
    for (const prefix of [SANDBOX_FOLDER_PREFIX, EXECUTOR_FOLDER_PREFIX])
      await sweepOwnedFolders(prefix, this.#options.log)
    await this.#options.selectIsolation()
    this.#refill()
  }

  pools(): Pool[] {
    const claimed = this.#claimed.size
    const ready = [...this.#hosts].filter((host) => !this.#claimed.has(host) && !this.#dead.has(host)).length
    return [{ name: 'this machine', ready, starting: this.#starting.size, claimed }]
  }

  /** Nothing to store: there is no process yet, and the next start removes folders of dead services. */
  draft(): undefined {}

  async claim(request: ClaimRequest): Promise<BoundSandbox> {
    const startedAt = performance.now()
    const { host, launch } = await this.#take()
    this.#claimed.add(host)
    setTimeout(() => this.#refill(), REFILL_DELAY_MS)
    const { detection } = await this.#options.selectIsolation()
    try {
      request.signal.throwIfAborted()
      await request.onPosted(host.instanceId)
    } catch (error) {
      await this.#destroy(host)
      throw error
    }
    return bind(host, () => this.#destroy(host), {
      claimName: request.claimName,
      launch,
      bindMs: performance.now() - startedAt,
      isolation: detection.isolation,
      isDescribedByHost: false,
      warnings: detection.warnings.map((warning) => ({ ...warning, backend: detection.isolation.backend })),
    })
  }

  async collect(handle: unknown): Promise<void> {
    const { directory, pid, startTime } = Handle.parse(handle)
    if (startTimeOf(pid) === startTime) killGroup(pid)
    await removeSandboxFolder(directory)
  }

  async close(): Promise<void> {
    this.#closed = true
    await Promise.allSettled(this.#starting)
    const { log } = this.#options
    const destroy = (host: HostProcess) => bestEffort(log, 'end a sandbox', () => this.#destroy(host))
    await Promise.all([...this.#hosts].map(destroy))
  }

  #startHost(): Promise<HostProcess> {
    const starting = this.#options.selectIsolation().then(async ({ backend }) => {
      const host = await startHostProcess({ ...this.#options, backend: backend.name })
      this.#hosts.add(host)
      void host.exited.then(() => this.#dead.add(host))
      return host
    })
    this.#starting.add(starting)
    const over = () => this.#starting.delete(starting)
    starting.then(over, over)
    return starting
  }

  async #destroy(host: HostProcess): Promise<void> {
    await host.destroy()
    this.#hosts.delete(host)
    this.#claimed.delete(host)
  }

  #refill(): void {
    while (!this.#closed && this.#standby.length < this.#options.warm) {
      const host = this.#startHost()
      host.catch((error) => this.#options.log.error('a warm sandbox could not be started', { error }))
      this.#standby.push(host)
    }
  }

  /** Returns a live standby process, or starts a new one. */
  async #take(): Promise<{ host: HostProcess; launch: 'warm' | 'cold' }> {
    for (let next = this.#standby.shift(); next; next = this.#standby.shift()) {
      const host = await next.catch(() => undefined)
      if (host && !this.#dead.has(host)) return { host, launch: 'warm' }
      if (host) await this.#destroy(host)
    }
    return { host: await this.#startHost(), launch: 'cold' }
  }
}

type Binding = Pick<
  BoundSandbox,
  'claimName' | 'launch' | 'bindMs' | 'isolation' | 'isDescribedByHost' | 'warnings'
>

function bind(host: HostProcess, destroy: () => Promise<void>, binding: Binding): BoundSandbox {
  let released: Promise<void> | undefined
  return {
    ...binding,
    namespace: NAMESPACE,
    podName: `local-${host.instanceId.slice(0, 8)}`,
    instanceId: host.instanceId,
    uids: { claim: host.instanceId, sandbox: host.instanceId, pod: host.instanceId },
    address: { socketPath: host.socketPath },
    egressSocket: host.egressSocket,
    workingDirectory: (path) => path ?? host.workspace,
    handle: host.handle,
    lost: host.exited,
    // A child of this process: no other process can take it over.
    detach: () => undefined,
    release: () => {
      released ??= destroy()
      return released
    },
  }
}
