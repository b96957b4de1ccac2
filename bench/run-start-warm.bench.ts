import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { CLAIM } from '../contracts/claim.ts'
import { createKubeClient, type KubeClient } from '../devcluster/client/kube-client.ts'
import { readKubeconfig } from '../devcluster/client/kubeconfig.ts'
import { startCluster } from '../devcluster/cluster.ts'
import { completeOptions } from '../devcluster/cluster-options.ts'
import { whyNoNodes } from '../devcluster/host/privileges.ts'
import { waitUntil } from '../devcluster/host/wait-until.ts'
import { type Bench, type Figure, figure } from './harness.ts'
import { type ClusterService, startClusterService } from './subjects/cluster-service.ts'
import { watchReady } from './subjects/ready-watch.ts'

const REPLICAS = 10
const BATCHES = 4
const REFILLED_ROUNDS = 8
/** A new pod of the pool still loads modules when it reports ready. After this time it has loaded them. */
const SETTLE_MS = 700
/** A pod that ends takes both processors of a small machine too, and its node cleans up after it for a moment longer. */
const CLEANUP_MS = 300
const GONE_MS = 30_000
/** Milliseconds, from the quality document. */
const ADDED_BAR = 60
const LIFE_MS = 600_000

type Ready = Awaited<ReturnType<typeof watchReady>>
type Subject = { readonly kube: KubeClient; readonly service: ClusterService; readonly ready: Ready }

/** `POST /api/runs` to the agent's first event in a warm pod, against a bare claim's bind. */
export const bench: Bench = { name: 'run-start-warm', run }

async function run(): Promise<readonly Figure[]> {
  const lacking = whyNoNodes()
  if (lacking) {
    process.stderr.write(`run-start-warm: ${lacking}\n`)
    return []
  }
  const cluster = await startCluster(completeOptions({ nodes: 1 }), () => undefined)
  const kube = createKubeClient(readKubeconfig(cluster.kubeconfig))
  try {
    const service = await startClusterService(kube, cluster.kubeconfig, REPLICAS)
    const ready = await watchReady(kube, service.namespace)
    const subject = { kube, service, ready }
    try {
      return [await measureAlone(subject), await measureRefilled(subject)]
    } finally {
      await ready.stop()
      await service.stop()
    }
  } finally {
    await kube.close()
    await cluster.stop()
  }
}

type Samples = { readonly baseline: number[]; readonly value: number[] }

/**
 * The pool replaces each claimed sandbox, and starting the new pod takes both processors of a small machine, so a quota
 * forbids new sandboxes. A quota on pods alone would let the controller retry, and its retries would distort the figure.
 */
async function measureAlone(subject: Subject): Promise<Figure> {
  const samples: Samples = { baseline: [], value: [] }
  for (let batch = -1; batch < BATCHES; batch += 1) {
    await settled(subject)
    await subject.kube.create(noMoreSandboxes(subject))
    for (let pair = 0; pair < REPLICAS / 2; pair += 1) {
      const baseline = await bareBind(subject)
      const value = await startRun(subject)
      if (batch >= 0) add(samples, baseline, value)
    }
    await subject.kube.delete(pathOf(subject))
  }
  const note = 'baseline: a claim of nobody’s on the same pool, from its post to Ready on a bare watch'
  return figure({ name: 'run-start-warm', unit: 'ms', measure: 'added', bar: ADDED_BAR, samples, note })
}

async function measureRefilled(subject: Subject): Promise<Figure> {
  const samples: Samples = { baseline: [], value: [] }
  for (let round = 0; round < REFILLED_ROUNDS; round += 1) {
    await settled(subject)
    const baseline = await bareBind(subject)
    await settled(subject)
    add(samples, baseline, await startRun(subject))
  }
  return figure({
    name: 'run-start-warm (refilled)',
    unit: 'ms',
    measure: 'added',
    bar: Number.POSITIVE_INFINITY,
    samples,
    note: 'for information: the next pod of the pool starts at the same moment, on the same processors',
  })
}

function add(samples: Samples, baseline: number, value: number): void {
  samples.baseline.push(baseline)
  samples.value.push(value)
}

const pathOf = ({ service: { namespace } }: Subject) => ({
  apiVersion: 'v1',
  plural: 'resourcequotas',
  namespace,
  name: 'no-more',
})
const noMoreSandboxes = ({ service: { namespace } }: Subject) => ({
  apiVersion: 'v1',
  kind: 'ResourceQuota',
  metadata: { name: 'no-more', namespace },
  spec: { hard: { 'count/sandboxes.agents.x-k8s.io': '0' } },
})

async function settled({ service }: Subject): Promise<void> {
  await service.untilWarm()
  await delay(SETTLE_MS)
}

/** Milliseconds from the post of a claim to its Ready, without any of us; returns when it is gone, as a run's end does. */
async function bareBind({ kube, service, ready }: Subject): Promise<number> {
  const { namespace, pool } = service
  const name = `bare-${randomUUID()}`
  const path = { apiVersion: `${CLAIM.group}/${CLAIM.version}`, plural: CLAIM.plural, namespace, name }
  const shutdownTime = new Date(Date.now() + LIFE_MS).toISOString()
  const startedAt = performance.now()
  await kube.create({
    apiVersion: path.apiVersion,
    kind: CLAIM.kind,
    metadata: { name, namespace },
    spec: {
      warmPoolRef: { name: pool },
      lifecycle: { shutdownTime, shutdownPolicy: 'Delete', ttlSecondsAfterFinished: 600 },
    },
  })
  const tookMs = (await ready.readyAt(name)) - startedAt
  await kube.delete(path, { propagationPolicy: 'Foreground' })
  await waitUntil({ what: `the end of ${name}`, timeoutMs: GONE_MS, everyMs: 100 }, async () =>
    (await kube.find(path)) === undefined ? true : undefined,
  )
  await delay(CLEANUP_MS)
  return tookMs
}

/** Milliseconds from the request to the agent's first event, as a client reads it. */
async function startRun({ service }: Subject): Promise<number> {
  const { client } = service
  const startedAt = performance.now()
  const { id } = await client.startRun({
    task: 'say a word',
    workspace: { kind: 'empty' },
    agent: { kind: 'scripted', plan: { turns: [[{ kind: 'say', text: 'hello' }]] } },
  })
  let first: number | undefined
  for await (const { event } of client.streamEvents(id)) {
    if (/^(?:agent|tool)\./.test(event.type)) first ??= performance.now() - startedAt
    if (event.type === 'run.failed') throw new Error(`${event.data.code}: ${event.data.message}`)
    if (event.type === 'sandbox.execution_pod.bound' && event.data.launch !== 'warm')
      throw new Error('the sandbox was not warm')
  }
  await delay(CLEANUP_MS)
  if (first === undefined) throw new Error('the agent said nothing')
  return first
}
