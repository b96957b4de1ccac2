import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { afterAll, beforeAll } from 'vitest'
import type { PlanStep } from '../../../contracts/agents.ts'
import type { RunEvent } from '../../../contracts/events.ts'
import { conditionOf } from '../../../devcluster/client/manifests.ts'
import { type Cluster, startCluster } from '../../../devcluster/cluster.ts'
import { completeOptions } from '../../../devcluster/cluster-options.ts'
import { insideNetwork } from '../../../devcluster/host/links.ts'
import { readState } from '../../../devcluster/host/run-folder.ts'
import { waitUntil } from '../../../devcluster/host/wait-until.ts'
import { useServiceSpace } from '../helpers/service-space.ts'

const run = promisify(execFile)

/** The node that is lost; neither the control plane nor the service is on it. */
const LOST = 'node1'
/** Maximum time until the control plane marks an unresponsive node as not ready, and until its pods count as lost. */
const NOTICE_MS = 300_000
const GONE_MS = 300_000

/**
 * A cluster of two nodes with the service. All agent pods run on the node that the test takes down. Kubernetes keeps
 * its default grace periods, so the test shows how long a run takes to end on an ordinary cluster.
 */
export function useLosableNode() {
  let cluster: Cluster
  // Before the space's own preparations, which need it.
  beforeAll(async () => {
    cluster = await startCluster(completeOptions({ nodes: 2 }), () => undefined)
  })
  afterAll(() => cluster?.stop())

  const space = useServiceSpace({
    runtimeClass: undefined,
    replicas: { agent: 1, command: 0 },
    kubeconfig: () => cluster.kubeconfig,
    agentPod: async () => (spec) => ({ ...spec, nodeSelector: { 'kubernetes.io/hostname': LOST } }),
  })

  const node = { apiVersion: 'v1', plural: 'nodes', name: LOST }
  const isReady = async () => conditionOf(await space.kube().get(node), 'Ready')?.status === 'True'
  const state = () => {
    const found = readState(cluster.folder)
    if (!found) throw new Error('the cluster does not run')
    return found
  }
  const isThere = async (podUid: string) =>
    (await space.pods()).some(({ metadata }) => metadata.uid === podUid)

  return {
    space,
    /** Changes the node's switch port. Without the port, the node has no network, but its pods keep running. */
    plug(...how: string[]) {
      const pid = state().processes.findLast(({ name }) => name === 'switch')?.pid ?? 0
      return insideNetwork(pid, [['link', 'set', LOST, ...how]])
    },
    /** Everything of the node at once: kubelet, containerd, and all that runs in pods. */
    async kill() {
      const pid = state().nodes.find(({ name }) => name === LOST)?.pid
      // The signal also kills this shell.
      await run('nsenter', ['-t', String(pid), '-p', '--', 'sh', '-c', 'kill -9 -1']).catch(() => undefined)
    },
    takeOut: () => space.kube().delete(node),
    untilReady: () =>
      waitUntil({ what: 'the node', timeoutMs: GONE_MS, everyMs: 250 }, async () =>
        (await isReady()) ? true : undefined,
      ),
    isThere,
    untilGone: (podUid: string) =>
      waitUntil({ what: 'its claim and its pod to be gone', timeoutMs: GONE_MS, everyMs: 250 }, async () =>
        (await space.claims()).length === 0 && !(await isThere(podUid)) ? true : undefined,
      ),
    runThrough: (lose: () => Promise<void>) => runThrough(space, lose),
  }
}

/** Records the events of a working run whose node is lost. */
async function runThrough(space: ReturnType<typeof useServiceSpace>, lose: () => Promise<void>) {
  await space.waitForPool('agent')
  const command: PlanStep = { kind: 'tool', tool: 'run_command', arguments: { command: 'sleep 600' } }
  const { id } = await space.client().startRun({
    task: 'work until the node is lost',
    workspace: { kind: 'empty' },
    agent: { kind: 'scripted', plan: { turns: [[command]] } },
  })
  const seen: RunEvent[] = []
  let lostAt = 0
  const signal = AbortSignal.timeout(NOTICE_MS)
  for await (const { event } of space.client().streamEvents(id, { signal })) {
    seen.push(event)
    if (event.type !== 'tool.call') continue
    lostAt = performance.now()
    await lose()
  }
  const seconds = Math.round((performance.now() - lostAt) / 1000)
  const bound = seen.flatMap((event) => (event.type === 'sandbox.execution_pod.bound' ? [event.data] : []))
  return { seconds, podUid: bound[0]?.podUid ?? '', ended: await space.client().readRun(id) }
}
