import { CLAIM } from '../contracts/claim.ts'
import { createKubeClient, type KubeClient } from '../devcluster/client/kube-client.ts'
import type { KubeObject, ResourcePath } from '../devcluster/client/kube-object.ts'
import { readKubeconfig } from '../devcluster/client/kubeconfig.ts'
import { conditionOf } from '../devcluster/client/manifests.ts'
import { startCluster } from '../devcluster/cluster.ts'
import { completeOptions } from '../devcluster/cluster-options.ts'
import { deferred } from '../devcluster/deferred.ts'
import { whyNoNodes } from '../devcluster/host/privileges.ts'
import { waitUntil } from '../devcluster/host/wait-until.ts'
import { TOOLBOX_IMAGE, TOOLBOX_PORT } from '../devcluster/images/toolbox.ts'
import { type Bench, type Figure, figure } from './harness.ts'

const API = `${CLAIM.group}/${CLAIM.version}`
const NAMESPACE = 'default'
const POOL = 20
const SINGLES = 20
const ROUNDS = 3
const RUNTIMES = ['runc', 'gvisor'] as const
const BIND_MS = 60_000
const FILL_MS = 120_000
/** Bars in milliseconds. They are wide because they depend on the machine as much as on the controller. */
const BARS = { single: { p50: 500, p95: 1_500 }, parallel: { p50: 10_000, p95: 20_000 } } as const

type Step = () => Promise<number>

/** Milliseconds from posting an object to the event that shows it done, on one watch that all share. */
async function createTimer(client: KubeClient, path: ResourcePath, isDone: (object: KubeObject) => boolean) {
  const end = new AbortController()
  const { metadata } = await client.list(path)
  const waiting = new Map<string, () => void>()
  const watching = (async () => {
    for await (const { object } of client.watch(path, metadata.resourceVersion, end.signal)) {
      if (isDone(object)) waiting.get(object.metadata.name)?.()
    }
  })().catch((error: unknown) => {
    if (!end.signal.aborted) throw error
  })
  let count = 0
  return {
    async time(build: (name: string) => KubeObject): Promise<number> {
      count += 1
      const name = `bench-${path.plural}-${Date.now()}-${count}`
      const { promise, resolve, reject } = deferred<number>()
      const timeout = setTimeout(() => reject(new Error(`${name} took more than ${BIND_MS} ms`)), BIND_MS)
      const start = performance.now()
      waiting.set(name, () => resolve(performance.now() - start))
      await client.create(build(name))
      return promise.finally(() => clearTimeout(timeout))
    },
    async stop() {
      end.abort()
      await watching
    },
  }
}

const isBound = (claim: KubeObject) =>
  conditionOf(claim, 'Ready')?.status === 'True' && Boolean(claim['status'].sandbox?.name)

const metadataOf = (name: string) => ({ name, namespace: NAMESPACE })

function aPool(runtime: (typeof RUNTIMES)[number]): KubeObject[] {
  const container = {
    name: 'main',
    image: TOOLBOX_IMAGE,
    imagePullPolicy: 'Never',
    readinessProbe: { httpGet: { path: '/healthz', port: TOOLBOX_PORT }, periodSeconds: 1 },
    resources: { requests: { cpu: '10m', memory: '16Mi' }, limits: { cpu: '500m', memory: '128Mi' } },
  }
  const spec = {
    terminationGracePeriodSeconds: 1,
    containers: [container],
    ...(runtime === 'gvisor' ? { runtimeClassName: 'gvisor' } : {}),
  }
  return [
    {
      apiVersion: API,
      kind: 'SandboxTemplate',
      metadata: metadataOf(runtime),
      spec: { networkPolicyManagement: 'Unmanaged', podTemplate: { spec } },
    },
    {
      apiVersion: API,
      kind: 'SandboxWarmPool',
      metadata: metadataOf(runtime),
      spec: { replicas: POOL, sandboxTemplateRef: { name: runtime } },
    },
  ]
}

const aClaim = (pool: string) => (name: string) => ({
  apiVersion: API,
  kind: 'SandboxClaim',
  metadata: metadataOf(name),
  spec: {
    warmPoolRef: { name: pool },
    lifecycle: { shutdownPolicy: 'Delete', ttlSecondsAfterFinished: 600 },
  },
})
const aConfigMap = (name: string) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: metadataOf(name) })

async function waitUntilFull(client: KubeClient, pool: string): Promise<void> {
  const path = { apiVersion: API, plural: 'sandboxwarmpools', namespace: NAMESPACE, name: pool }
  await waitUntil({ what: `${POOL} ready members of ${pool}`, timeoutMs: FILL_MS, everyMs: 50 }, async () =>
    (await client.get(path))['status']?.readyReplicas === POOL ? true : undefined,
  )
}

/** One after the other, and then as many at once as the pool has, some times over. */
async function sample(
  before: () => Promise<void>,
  step: Step,
): Promise<Record<'single' | 'parallel', number[]>> {
  const samples = { single: [] as number[], parallel: [] as number[] }
  for (let i = 0; i < SINGLES; i += 1) {
    await before()
    samples.single.push(await step())
  }
  for (let round = 0; round < ROUNDS; round += 1) {
    await before()
    samples.parallel.push(...(await Promise.all(Array.from({ length: POOL }, step))))
  }
  return samples
}

async function measure(client: KubeClient): Promise<Figure[]> {
  const maps = await createTimer(
    client,
    { apiVersion: 'v1', plural: 'configmaps', namespace: NAMESPACE },
    () => true,
  )
  const baseline = await sample(
    () => Promise.resolve(),
    () => maps.time(aConfigMap),
  )
  await maps.stop()
  const claims = await createTimer(
    client,
    { apiVersion: API, plural: 'sandboxclaims', namespace: NAMESPACE },
    isBound,
  )
  const figures: Figure[] = []
  for (const runtime of RUNTIMES) {
    const start = performance.now()
    for (const object of aPool(runtime)) await client.create(object)
    await waitUntilFull(client, runtime)
    const filledMs = Math.round(performance.now() - start)
    const value = await sample(
      () => waitUntilFull(client, runtime),
      () => claims.time(aClaim(runtime)),
    )
    const note = `pool of ${POOL} ready after ${filledMs} ms; baseline: a ConfigMap on the same kind of watch`
    for (const mode of ['single', 'parallel'] as const) {
      for (const percentile of [50, 95] as const) {
        figures.push(
          figure({
            name: `claim ${runtime} ${mode} p${percentile}`,
            unit: 'ms',
            measure: 'absolute',
            bar: BARS[mode][`p${percentile}`],
            percentile,
            samples: { baseline: baseline[mode], value: value[mode] },
            note,
          }),
        )
      }
    }
    await client.delete({ apiVersion: API, plural: 'sandboxwarmpools', namespace: NAMESPACE, name: runtime })
  }
  await claims.stop()
  return figures
}

/** From posting a claim on a warm pool to the event that shows it bound, as a bare watch sees it. */
export const bench: Bench = {
  name: 'cluster-claims',
  async run() {
    const reason = whyNoNodes()
    if (reason) {
      process.stderr.write(`cluster-claims left out: ${reason}\n`)
      return []
    }
    const cluster = await startCluster(completeOptions({ gvisor: true }), (line) =>
      process.stderr.write(`${line}\n`),
    )
    const client = createKubeClient(readKubeconfig(cluster.kubeconfig))
    try {
      return await measure(client)
    } finally {
      await client.close()
      await cluster.stop()
    }
  },
}
