import { generateKeyPairSync, randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AGENT_HOST_PORT } from '../contracts/ports.ts'
import { KWOK_LABEL, KWOK_TOLERATION } from '../devcluster/addons/kwok.ts'
import { createKubeClient, type KubeClient } from '../devcluster/client/kube-client.ts'
import { readKubeconfig } from '../devcluster/client/kubeconfig.ts'
import { aPool, EXTENSIONS_API, templateWith } from '../devcluster/client/sandbox-objects.ts'
import { startCluster } from '../devcluster/cluster.ts'
import { completeOptions } from '../devcluster/cluster-options.ts'
import { waitUntil } from '../devcluster/host/wait-until.ts'
import type { RunDeps } from '../runtime/api/runs/deps.ts'
import { claimName, timeOrderedId } from '../runtime/api/runs/ids.ts'
import { launch } from '../runtime/api/runs/launch/launch.ts'
import { requestAgain } from '../runtime/api/runs/launch/request.ts'
import { silentLog } from '../runtime/kit/log.ts'
import { loadKubeConnection } from '../runtime/sandboxes/kubernetes/client/kube-connection.ts'
import { KubernetesProvider } from '../runtime/sandboxes/kubernetes/kubernetes-provider.ts'
import { PROVIDER_TIMING } from '../runtime/sandboxes/kubernetes/provider-timing.ts'
import type { BoundSandbox } from '../runtime/sandboxes/provider.ts'
import { openStore } from '../runtime/store/open-store.ts'
import type { RunRow, Store } from '../runtime/store/store.ts'
import { type Bench, type Figure, figure } from './harness.ts'
import { watchReady } from './subjects/ready-watch.ts'
import { seededRun } from './subjects/seeded-runs.ts'

const NAMESPACE = 'default'
const POOL = 'pool'
const REPLICAS = 25
const ROUNDS = 100
const FEW = 10
const MANY = 200
const CLAIM_MS = 60_000
const FILL_MS = 180_000
/** Milliseconds, from the quality document. */
const ADDED_BARS = { 50: 5, 99: 20 } as const
/** What "flat" is held to: 200 sandboxes cost no more than this many times what 10 cost. */
const FLAT = 1.5

type Sample = {
  /** From the post to the controller's Ready, as a bare watch sees it, and from there to our bound. */
  readonly readyMs: number
  readonly addedMs: number
  /** The part of `addedMs` until the provider hands the sandbox over: the rest is the store's. */
  readonly handedMs?: number
}

type Subject = {
  readonly provider: KubernetesProvider
  readonly client: KubeClient
  readonly ready: Awaited<ReturnType<typeof watchReady>>
  readonly store: Store
}

async function timeClaim({ provider, ready }: Subject): Promise<Sample & { sandbox: BoundSandbox }> {
  const claimName = `agent-${randomUUID()}`
  const startedAt = performance.now()
  const sandbox = await provider.claim({
    claimName,
    runId: 'run_1',
    generation: 1,
    kind: 'agent',
    handle: provider.draft(claimName),
    onPosted: async () => undefined,
    signal: AbortSignal.timeout(CLAIM_MS),
  })
  const boundAt = performance.now()
  const readyAt = await ready.readyAt(claimName)
  return { sandbox, readyMs: readyAt - startedAt, addedMs: boundAt - readyAt }
}

async function fillPool(client: KubeClient): Promise<void> {
  const path = { apiVersion: EXTENSIONS_API, plural: 'sandboxwarmpools', namespace: NAMESPACE, name: POOL }
  await waitUntil({ what: 'the pool', timeoutMs: FILL_MS, everyMs: 100 }, async () =>
    (await client.get(path))['status']?.readyReplicas === REPLICAS ? true : undefined,
  )
}

/** The launch of a run as the service does it, up to the commit of the event that names its sandbox. */
async function timeLaunch({ provider, ready, store }: Subject): Promise<Sample> {
  const run = await insertRun(store)
  const name = claimName('agent', run.id, 1)
  const bound = Promise.withResolvers<number>()
  const seen = new AbortController()
  const unfollow = store.onEvents(run.id, (events) => {
    if (!events?.some(({ event }) => event.type === 'sandbox.execution_pod.bound')) return
    bound.resolve(performance.now())
    // Nothing listens at the address of a fake pod: the bench stops here and releases the claim.
    seen.abort(new Error('measured'))
  })
  let handedAt = 0
  const timed = {
    namespace: provider.namespace,
    draft: (name: string) => provider.draft(name),
    collect: (handle: unknown) => provider.collect(handle),
    claim: async (request: Parameters<typeof provider.claim>[0]) => {
      const sandbox = await provider.claim(request)
      handedAt = performance.now()
      return sandbox
    },
  }
  const deps = { ...LAUNCH, store, provider: timed } as unknown as RunDeps
  const startedAt = performance.now()
  const request = await requestAgain(deps, run)
  const ended = launch(deps, run, { request, signal: seen.signal }).catch((error: unknown) => {
    if (!seen.signal.aborted) bound.reject(error)
  })
  const [boundAt, readyAt] = await Promise.all([bound.promise, ready.readyAt(name)])
  unfollow()
  await ended
  return { readyMs: readyAt - startedAt, addedMs: boundAt - readyAt, handedMs: handedAt - readyAt }
}

const LAUNCH = {
  keys: {
    keyId: 'bench',
    derive: () => new Uint8Array(32),
    ticketKey: { kid: 'k1', privateKey: generateKeyPairSync('ed25519').privateKey },
  },
  models: {},
  clock: () => new Date(),
  log: silentLog,
}

const insertRun = (store: Store): Promise<RunRow> =>
  store.transaction((tx) =>
    tx.insertRun(
      seededRun(0, {
        id: timeOrderedId('run', new Date()),
        state: 'starting',
        agent: { kind: 'none' },
        agentSpec: null,
        interactive: false,
      }),
    ),
  )

/** Launches in rounds of `parallel`, each round on a full pool and given back whole. */
async function sampleLaunches(subject: Subject, parallel: number, rounds: number): Promise<Sample[]> {
  const samples: Sample[] = []
  for (let round = 0; round < rounds; round += 1) {
    await fillPool(subject.client)
    samples.push(...(await Promise.all(Array.from({ length: parallel }, () => timeLaunch(subject)))))
  }
  return samples
}

/** Claims in rounds of `parallel`, each round on a full pool and given back whole. */
async function sample(subject: Subject, parallel: number, rounds: number): Promise<Sample[]> {
  const samples: Sample[] = []
  for (let round = 0; round < rounds; round += 1) {
    await fillPool(subject.client)
    const timed = await Promise.all(Array.from({ length: parallel }, () => timeClaim(subject)))
    samples.push(...timed)
    await Promise.all(timed.map(({ sandbox }) => sandbox.release('bench')))
  }
  return samples
}

const pluck = (samples: readonly Sample[], key: keyof Sample) => samples.map((one) => one[key] ?? 0)

async function measureAdded(subject: Subject): Promise<Figure[]> {
  const figures: Figure[] = []
  for (const parallel of [5, 20]) {
    const samples = await sampleLaunches(subject, parallel, parallel === 5 ? ROUNDS : 5)
    figures.push(
      figure({
        name: `claim-bind ${parallel} parallel, handed over`,
        unit: 'ms',
        measure: 'absolute',
        bar: Number.POSITIVE_INFINITY,
        samples: { baseline: pluck(samples, 'readyMs'), value: pluck(samples, 'handedMs') },
        note: 'for information: without the store’s part, p50',
      }),
    )
    for (const percentile of [50, 99] as const) {
      figures.push(
        figure({
          name: `claim-bind ${parallel} parallel p${percentile}`,
          unit: 'ms',
          measure: 'absolute',
          // Twenty at once are stated; the bars are for five.
          bar: parallel === 5 ? ADDED_BARS[percentile] : Number.POSITIVE_INFINITY,
          percentile,
          samples: { baseline: pluck(samples, 'readyMs'), value: pluck(samples, 'addedMs') },
          note: 'from the controller’s Ready, as a bare watch in this process saw it, through the commit of `sandbox.execution_pod.bound`; baseline: the launch’s beginning to that Ready',
        }),
      )
    }
  }
  return figures
}

/** CPU milliseconds of this process for each claim, its watches and its release. */
async function costOf(subject: Subject): Promise<{ cpuMs: number[]; latencyMs: number[] }> {
  const cpuMs: number[] = []
  const latencyMs: number[] = []
  for (let round = 0; round < 10; round += 1) {
    await fillPool(subject.client)
    const before = process.cpuUsage()
    const samples = await sample({ ...subject }, 5, 1)
    const { user, system } = process.cpuUsage(before)
    cpuMs.push((user + system) / 1000 / samples.length)
    latencyMs.push(...samples.map(({ readyMs, addedMs }) => readyMs + addedMs))
  }
  return { cpuMs, latencyMs }
}

async function hold(subject: Subject, count: number): Promise<BoundSandbox[]> {
  const held: BoundSandbox[] = []
  while (held.length < count) {
    await fillPool(subject.client)
    const more = Math.min(20, count - held.length)
    held.push(
      ...(await Promise.all(Array.from({ length: more }, () => timeClaim(subject)))).map(
        (one) => one.sandbox,
      ),
    )
  }
  return held
}

async function measureFlatness(subject: Subject): Promise<Figure[]> {
  await hold(subject, FEW)
  const few = await costOf(subject)
  await hold(subject, MANY - FEW)
  const many = await costOf(subject)
  const note = `baseline: beside ${FEW} sandboxes that are held; ours: beside ${MANY}`
  return [
    figure({
      name: `claim beside ${MANY}, latency`,
      unit: 'ms',
      bar: FLAT,
      samples: { baseline: few.latencyMs, value: many.latencyMs },
      note,
    }),
    figure({
      name: `claim beside ${MANY}, our CPU`,
      unit: 'ms',
      bar: FLAT,
      samples: { baseline: few.cpuMs, value: many.cpuMs },
      note,
    }),
  ]
}

async function makePool(client: KubeClient): Promise<void> {
  const podSpec = {
    nodeSelector: KWOK_LABEL,
    tolerations: [KWOK_TOLERATION],
    terminationGracePeriodSeconds: 0,
    containers: [{ name: 'main', image: 'x' }],
  }
  await client.create(templateWith({ name: NAMESPACE }, POOL, { podSpec }))
  await client.create(aPool({ name: NAMESPACE }, POOL, { template: POOL, replicas: REPLICAS }))
}

const providerOf = (kubeconfig: string): KubernetesProvider =>
  new KubernetesProvider({
    connect: () => loadKubeConnection({ kind: 'file', path: kubeconfig }),
    namespace: NAMESPACE,
    pool: () => POOL,
    serviceAccount: () => 'default',
    deploymentId: 'bench',
    runtimeClass: undefined,
    agentHostPort: AGENT_HOST_PORT,
    timing: PROVIDER_TIMING,
    clock: () => new Date(),
    log: silentLog,
  })

/** What we add to the controller's own time, and whether that grows with the sandboxes that are there. */
export const bench: Bench = {
  name: 'claim-bind',
  async run() {
    const cluster = await startCluster(completeOptions({ kwokNodes: 4 }), () => undefined)
    const client = createKubeClient(readKubeconfig(cluster.kubeconfig))
    const provider = providerOf(cluster.kubeconfig)
    const folder = mkdtempSync(join(tmpdir(), 'bench-claims-'))
    const store = await openStore({ kind: 'sqlite', file: join(folder, 'store.db') }, { log: silentLog })
    try {
      await makePool(client)
      await provider.start()
      const ready = await watchReady(client, NAMESPACE)
      const subject = { provider, client, ready, store }
      const figures = [...(await measureAdded(subject)), ...(await measureFlatness(subject))]
      await ready.stop()
      return figures
    } finally {
      await provider.close()
      await store.close()
      rmSync(folder, { recursive: true })
      await client.close()
      await cluster.stop()
    }
  },
}
