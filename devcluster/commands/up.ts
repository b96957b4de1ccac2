import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import type { Say } from '../build/ensure-tools.ts'
import { type Cluster, startCluster } from '../cluster.ts'
import type { ClusterOptions } from '../cluster-options.ts'
import { deferred } from '../deferred.ts'
import { HarnessError, messageOf } from '../harness-error.ts'
import type { RunningService } from '../service/start-service.ts'

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** Messages from the process of a kept cluster to the process that started it. */
type Message =
  | { readonly type: 'say'; readonly line: string }
  | { readonly type: 'ready'; readonly summary: ClusterSummary }
  | { readonly type: 'failed'; readonly message: string }

export interface UpOptions {
  readonly cluster: ClusterOptions
  /** Also installs the product itself. */
  readonly service: boolean
  /** A folder with archives of the product's images. Without it the images are made from this clone. */
  readonly images?: string
}

export interface ClusterSummary {
  readonly slot: number
  readonly kubeconfig: string
  readonly steps: Readonly<Record<string, number>>
  readonly service?: Pick<RunningService, 'url' | 'apiKey' | 'apiKeyFile'>
}

function summaryOf(
  { slot, kubeconfig, steps }: Cluster,
  service: RunningService | undefined,
): ClusterSummary {
  if (!service) return { slot, kubeconfig, steps }
  const { url, apiKey, apiKeyFile } = service
  return { slot, kubeconfig, steps, service: { url, apiKey, apiKeyFile } }
}

/** Starts a cluster, installs the product if the options say so, and stops both when a signal arrives. */
export async function holdCluster(
  options: UpOptions,
  say: Say,
  onReady: (summary: ClusterSummary) => void,
): Promise<void> {
  const { promise: signalled, resolve } = deferred()
  let isReady = false
  for (const signal of SIGNALS) {
    process.on(signal, () => {
      // There is no orderly stop for half a cluster. Its processes end with this one, and a clean-up process removes the rest.
      if (!isReady) process.exit(130)
      resolve()
    })
  }
  const cluster = await startCluster(options.cluster, say)
  const service = options.service ? await serviceIn(cluster, options, say) : undefined
  isReady = true
  onReady(summaryOf(cluster, service))
  const alive = setInterval(() => undefined, 60_000)
  await signalled
  clearInterval(alive)
  await service?.stop()
  await cluster.stop()
}

/** The import is dynamic because the renderer and the database client take a second to load. */
async function serviceIn(cluster: Cluster, { images }: UpOptions, say: Say): Promise<RunningService> {
  try {
    const { startService } = await import('../service/start-service.ts')
    return await startService(cluster, say, images)
  } catch (error) {
    await cluster.stop()
    throw error
  }
}

/** Starts a process that holds the cluster, and returns when the cluster is ready. */
export async function keepCluster(options: UpOptions, say: Say): Promise<ClusterSummary> {
  const args = [join(import.meta.dirname, 'holder.ts'), JSON.stringify(options)]
  const child = spawn(process.execPath, args, {
    detached: true,
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    cwd: '/',
  })
  try {
    return await readyMessage(child, say)
  } finally {
    if (child.connected) child.disconnect()
    child.unref()
  }
}

function readyMessage(child: ChildProcess, say: Say): Promise<ClusterSummary> {
  const { promise, resolve, reject } = deferred<ClusterSummary>()
  child.on('message', (message: Message) => {
    if (message.type === 'say') say(message.line)
    else if (message.type === 'ready') resolve(message.summary)
    else reject(new HarnessError(message.message))
  })
  child.on('exit', (code, signal) =>
    reject(new HarnessError(`the cluster's process ended early (${signal ?? code})`)),
  )
  return promise
}

/** The process that `keepCluster` starts. It outlives its parent. */
export async function holdForParent(options: UpOptions): Promise<void> {
  const tell = (message: Message) => {
    if (process.connected) process.send?.(message)
  }
  const orphaned = () => process.exit(130)
  // If the parent exits before it receives the cluster's number, the user could not find the cluster.
  process.once('disconnect', orphaned)
  try {
    await holdCluster(
      options,
      (line) => tell({ type: 'say', line }),
      (summary) => {
        process.off('disconnect', orphaned)
        tell({ type: 'ready', summary })
      },
    )
  } catch (error) {
    tell({ type: 'failed', message: messageOf(error) })
    process.exitCode = 1
  }
}
