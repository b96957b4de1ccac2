import { randomUUID } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { setInterval } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { AGENT_HOST_PORT } from '../../../contracts/ports.ts'
import { KWOK_LABEL, KWOK_TOLERATION } from '../../../devcluster/addons/kwok.ts'
import { createKubeClient, type KubeClient } from '../../../devcluster/client/kube-client.ts'
import { readKubeconfig } from '../../../devcluster/client/kubeconfig.ts'
import { conditionOf } from '../../../devcluster/client/manifests.ts'
import { aPool, CORE_API, EXTENSIONS_API } from '../../../devcluster/client/sandbox-objects.ts'
import { type Cluster, startCluster } from '../../../devcluster/cluster.ts'
import { completeOptions } from '../../../devcluster/cluster-options.ts'
import { type Daemon, startDaemon } from '../../../devcluster/host/daemon.ts'
import { isHealthy } from '../../../devcluster/host/health.ts'
import { logPath, readState } from '../../../devcluster/host/run-folder.ts'
import { waitUntil } from '../../../devcluster/host/wait-until.ts'
import { silentLog } from '../../../runtime/kit/log.ts'
import { loadKubeConnection } from '../../../runtime/sandboxes/kubernetes/client/kube-connection.ts'
import { KubernetesProvider } from '../../../runtime/sandboxes/kubernetes/kubernetes-provider.ts'
import { PROVIDER_TIMING } from '../../../runtime/sandboxes/kubernetes/provider-timing.ts'
import type { BoundSandbox } from '../../../runtime/sandboxes/provider.ts'
import { aTemplate } from '../helpers/sandbox-objects.ts'

const NAMESPACE = 'default'
const POOL = 'pool'
/** After a refused watch, client-go waits up to 30 s plus a random delay of the same size before it retries. */
const WAIT_MS = 150_000
vi.setConfig({ testTimeout: 2 * WAIT_MS })

/** A program of a cluster, as it was started; killed and started again, it is the same one. */
function programOf({ folder }: Cluster, name: string) {
  const found = readState(folder)?.processes.findLast((record) => record.name === name)
  if (!found) throw new Error(`${name} does not run`)
  const argv = readFileSync(`/proc/${found.pid}/cmdline`, 'utf8').split('\0').slice(0, -1)
  let { pid } = found
  let daemon: Daemon | undefined
  return {
    freeze: () => process.kill(pid, 'SIGSTOP'),
    thaw: () => process.kill(pid, 'SIGCONT'),
    /** Kills the process and waits until its address is free. */
    async kill(): Promise<void> {
      process.kill(pid, 'SIGKILL')
      await waitUntil({ what: `${name} to be gone`, timeoutMs: WAIT_MS }, () => !existsSync(`/proc/${pid}`))
    },
    isRunning: () => existsSync(`/proc/${pid}`),
    start(): void {
      daemon = startDaemon({ name, argv, logPath: logPath(folder, `${name}-again`) })
      pid = daemon.identity.pid
    },
    stop: () => daemon?.stop(0),
  }
}

describe('a provider on a control plane whose programs die', () => {
  let cluster: Cluster
  let client: KubeClient
  let stopLooking: () => Promise<void>
  const programs = new Map<string, ReturnType<typeof programOf>>()
  const path = (plural: string, name?: string) => ({
    apiVersion: plural === 'pods' ? 'v1' : plural === 'sandboxes' ? CORE_API : EXTENSIONS_API,
    plural,
    namespace: NAMESPACE,
    ...(name !== undefined && { name }),
  })
  const program = (name: string) => {
    const found = programs.get(name) ?? programOf(cluster, name)
    programs.set(name, found)
    return found
  }
  /**
   * If kwok fails to write the status of a pod, it does not retry until the pod has an event; a kubelet retries by
   * itself. So this function produces events.
   */
  function keepLooking(): () => Promise<void> {
    const stopping = new AbortController()
    const work = (async () => {
      for await (const round of setInterval(500, randomUUID, { signal: stopping.signal }))
        await lookAtPods(round()).catch(() => undefined)
    })().catch(() => undefined)
    return async () => {
      stopping.abort()
      await work
    }
  }

  async function lookAtPods(round: string): Promise<void> {
    const { items } = await client.list(path('pods'))
    for (const pod of items.filter((each) => conditionOf(each, 'Ready')?.status !== 'True')) {
      await client.mergePatch(path('pods', pod.metadata.name), { metadata: { annotations: { round } } })
    }
  }

  const eventually = <T>(what: string, probe: () => Promise<T | undefined>) =>
    waitUntil({ what, timeoutMs: WAIT_MS, everyMs: 50 }, probe)

  beforeAll(async () => {
    cluster = await startCluster(completeOptions({ kwokNodes: 1 }), () => undefined)
    client = createKubeClient(readKubeconfig(cluster.kubeconfig))
    // Its command line is read while it runs: it may end by itself.
    program('kube-scheduler')
    stopLooking = keepLooking()
    await eventually('the default account', () =>
      client.find({ apiVersion: 'v1', plural: 'serviceaccounts', namespace: NAMESPACE, name: 'default' }),
    )
    const podSpec = {
      nodeSelector: KWOK_LABEL,
      tolerations: [KWOK_TOLERATION],
      terminationGracePeriodSeconds: 0,
      containers: [{ name: 'main', image: 'x' }],
    }
    await client.create(aTemplate({ name: NAMESPACE }, POOL, { podSpec }))
    await client.create(aPool({ name: NAMESPACE }, POOL, { template: POOL, replicas: 3 }))
  })
  afterAll(async () => {
    await stopLooking()
    await client.close()
    for (const restarted of programs.values()) await restarted.stop()
    await cluster.stop()
  })

  /** Deletes the leftovers of a failed test, so that they do not fail the next test. */
  afterEach(async () => {
    const { items } = await client.list(path('sandboxclaims'))
    for (const { metadata } of items) await client.delete(path('sandboxclaims', metadata.name))
  })

  /**
   * Waits until the API server and the scheduler are ready. Each refused watch makes the scheduler wait longer, up to a
   * minute. If a pod name was deleted and created again before the scheduler lists the pods (the controller does that
   * to a pool's member), the scheduler treats its cache as corrupted and exits, and the kubelet restarts it
   * (`UpdatePod` in its `backend/cache`).
   */
  async function isBack(): Promise<void> {
    const { server } = readKubeconfig(cluster.kubeconfig)
    await eventually('the API server to be ready', async () => {
      await client.list(path('pods'))
      return (await isHealthy(`${server}/readyz`)) ? true : undefined
    })
    const scheduler = program('kube-scheduler')
    if (scheduler.isRunning()) await scheduler.kill()
    scheduler.start()
  }

  const poolIsFull = () =>
    eventually('the pool to be full', async () =>
      (await client.get(path('sandboxwarmpools', POOL)))['status']?.readyReplicas === 3 ? true : undefined,
    )

  async function startProvider(timing: Partial<typeof PROVIDER_TIMING> = {}): Promise<KubernetesProvider> {
    const provider = new KubernetesProvider({
      connect: () => loadKubeConnection({ kind: 'file', path: cluster.kubeconfig }),
      namespace: NAMESPACE,
      pool: () => POOL,
      serviceAccount: () => 'default',
      deploymentId: 'test',
      runtimeClass: undefined,
      agentHostPort: AGENT_HOST_PORT,
      timing: { ...PROVIDER_TIMING, ...timing },
      clock: () => new Date(),
      log: silentLog,
    })
    onTestFinished(() => provider.close())
    await provider.start()
    return provider
  }

  function claim(provider: KubernetesProvider): Promise<BoundSandbox> {
    const claimName = `agent-${randomUUID()}`
    return provider.claim({
      claimName,
      runId: 'run_1',
      generation: 1,
      kind: 'agent',
      handle: provider.draft(claimName),
      onPosted: async () => undefined,
      signal: AbortSignal.timeout(WAIT_MS),
    })
  }

  async function expectNothingLeft(): Promise<void> {
    await eventually('no claim, and no pod but the pool’s', async () => {
      const [claims, pods] = await Promise.all([
        client.list(path('sandboxclaims')),
        client.list(path('pods')),
      ])
      return claims.items.length === 0 && pods.items.length === 3 ? true : undefined
    })
  }

  it.each(['kube-apiserver', 'etcd'])(
    'claims every sandbox once although %s is killed during the claims',
    async (name) => {
      await poolIsFull()
      const provider = await startProvider()
      const claimed = Array.from({ length: 5 }, () => claim(provider))
      await eventually('the first claims', async () =>
        (await client.list(path('sandboxclaims'))).items.length > 0 ? true : undefined,
      )

      await program(name).kill()
      program(name).start()
      await isBack()
      const sandboxes = await Promise.all(claimed)
      const claims = (await client.list(path('sandboxclaims'))).items.length
      await Promise.all(sandboxes.map((sandbox) => sandbox.release('test')))

      expect(new Set(sandboxes.map(({ uids }) => uids.pod)).size).toBe(5)
      expect(claims).toBe(5)
      await expectNothingLeft()
    },
  )

  it.each(['kube-apiserver', 'etcd', 'agent-sandbox-controller'])(
    'keeps a bound sandbox although %s is killed, and releases it',
    async (name) => {
      await poolIsFull()
      const sandbox = await claim(await startProvider())
      let lost: string | undefined
      void sandbox.lost.then((how) => {
        lost = how
      })

      await program(name).kill()
      program(name).start()
      await isBack()
      await sandbox.release('test')

      expect(lost).toBeUndefined()
      await expectNothingLeft()
    },
  )

  it('waits for a controller that is down when it claims', async () => {
    await poolIsFull()
    const provider = await startProvider()
    await program('agent-sandbox-controller').kill()
    const claimed = claim(provider)
    await eventually('the claim', async () =>
      (await client.list(path('sandboxclaims'))).items.length > 0 ? true : undefined,
    )

    program('agent-sandbox-controller').start()

    await (await claimed).release('test')
    await expectNothingLeft()
  })

  it('is claimed and released although the API server hangs for longer than the timeout of a request', async () => {
    await poolIsFull()
    const provider = await startProvider()
    program('kube-apiserver').freeze()
    const { attemptTimeoutMs } = PROVIDER_TIMING.transport
    const unanswered = client.raw({ method: 'GET', url: '/version', timeoutMs: attemptTimeoutMs + 2_000 })

    const claimed = claim(provider)
    await expect(unanswered).rejects.toThrow()
    program('kube-apiserver').thaw()
    const sandbox = await claimed
    await sandbox.release('test')

    await expectNothingLeft()
  })

  it('loses a sandbox whose node does not answer any more', async () => {
    await poolIsFull()
    const sandbox = await claim(await startProvider({ unreadyMs: 2_000, checkEveryMs: 200 }))
    const pod = path('pods', sandbox.podName)
    const { status } = await client.get(pod)

    const conditions = status.conditions.map((condition: { type: string }) =>
      condition.type === 'Ready' ? { ...condition, status: 'False', reason: 'NodeNotReady' } : condition,
    )
    await client.mergePatch({ ...pod, subresource: 'status' }, { status: { conditions } })

    expect(await sandbox.lost).toMatch(/not ready/)
    await sandbox.release('test')
    await expectNothingLeft()
  })
})
