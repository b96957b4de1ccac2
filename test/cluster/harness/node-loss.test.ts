import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { PlanStep } from '../../../contracts/configure.ts'
import type { RunEvent } from '../../../contracts/events.ts'
import { conditionOf } from '../../kube/client/manifests.ts'
import { type Cluster, startCluster } from '../../kube/cluster.ts'
import { completeOptions } from '../../kube/cluster-options.ts'
import { insideNetwork } from '../../kube/host/links.ts'
import { whyNoNodes } from '../../kube/host/privileges.ts'
import { readState } from '../../kube/host/run-folder.ts'
import { waitUntil } from '../../kube/host/wait-until.ts'
import { useServiceSpace } from '../helpers/service-space.ts'

const run = promisify(execFile)

/** The node that is lost; neither the control plane nor the service is on it. */
const LOST = 'node1'
const START_MS = 300_000
/** Until the control plane calls a silent node not ready, and who waits for its pods gives them up. */
const NOTICE_MS = 300_000
const GONE_MS = 300_000
const TEST_MS = 900_000

describe.skipIf(whyNoNodes() !== undefined)('a run whose node is lost', () => {
  let cluster: Cluster
  // Before the space's own preparations, which need it.
  beforeAll(async () => {
    cluster = await startCluster(completeOptions({ nodes: 2 }), () => undefined)
  }, START_MS)
  afterAll(() => cluster?.stop(), START_MS)

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
  /** The node’s port of the switch: without it, it hears and says nothing, and its pods run on. */
  const plug = (...how: string[]) => {
    const pid = state().processes.findLast(({ name }) => name === 'switch')?.pid ?? 0
    return insideNetwork(pid, [['link', 'set', LOST, ...how]])
  }
  /** Everything of the node at once: kubelet, containerd, and all that runs in pods. */
  const killNode = async () => {
    const pid = state().nodes.find(({ name }) => name === LOST)?.pid
    // Its shell dies of it too.
    await run('nsenter', ['-t', String(pid), '-p', '--', 'sh', '-c', 'kill -9 -1']).catch(() => undefined)
  }

  /** All that happens to a run which works when its node is lost. */
  async function runThrough(lose: () => Promise<void>) {
    await space.waitForPool('agent')
    const command: PlanStep = { kind: 'tool', tool: 'run_command', arguments: { command: 'sleep 600' } }
    const { id } = await space.client().startRun({
      task: 'work until the node is lost',
      workspace: { kind: 'empty' },
      agent: { kind: 'scripted', plan: { turns: [[command]] } },
    })
    const seen: RunEvent[] = []
    let lostAt = 0
    for await (const { event } of space
      .client()
      .streamEvents(id, { signal: AbortSignal.timeout(NOTICE_MS) })) {
      seen.push(event)
      if (event.type !== 'tool.call') continue
      lostAt = performance.now()
      await lose()
    }
    const seconds = Math.round((performance.now() - lostAt) / 1000)
    const bound = seen.flatMap((event) => (event.type === 'sandbox.execution_pod.bound' ? [event.data] : []))
    return { seconds, podUid: bound[0]?.podUid ?? '', ended: await space.client().readRun(id) }
  }

  const isThere = async (podUid: string) =>
    (await space.pods()).some(({ metadata }) => metadata.uid === podUid)
  const untilGone = (podUid: string) =>
    waitUntil({ what: 'its claim and its pod to be gone', timeoutMs: GONE_MS, everyMs: 250 }, async () =>
      (await space.claims()).length === 0 && !(await isThere(podUid)) ? true : undefined,
    )

  it(
    'ends as sandbox_lost when the node falls silent, and leaves nothing when it is back',
    async () => {
      const { seconds, podUid, ended } = await runThrough(() => plug('nomaster'))
      const wasThere = await isThere(podUid)
      await plug('master', 'br0')
      await waitUntil({ what: 'the node', timeoutMs: GONE_MS, everyMs: 250 }, async () =>
        (await isReady()) ? true : undefined,
      )
      await untilGone(podUid)

      process.stderr.write(`a run ended ${seconds} s after its node fell silent\n`)
      expect(ended).toMatchObject({ state: 'failed', failure: { code: 'sandbox_lost' } })
      expect(wasThere, 'nobody can delete a pod while its node is away').toBe(true)
      await space.nothingLeft()
    },
    TEST_MS,
  )

  it(
    'ends as sandbox_lost when the node dies, and leaves nothing when it is taken out',
    async () => {
      const { seconds, podUid, ended } = await runThrough(killNode)
      await space.kube().delete(node)
      await untilGone(podUid)

      process.stderr.write(`a run ended ${seconds} s after its node died\n`)
      expect(ended).toMatchObject({ state: 'failed', failure: { code: 'sandbox_lost' } })
    },
    TEST_MS,
  )
})
