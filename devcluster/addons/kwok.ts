import type { KubeObject } from '../client/kube-object.ts'
import { conditionOf } from '../client/manifests.ts'
import type { ClusterContext } from '../cluster-context.ts'
import { withFreePorts } from '../host/free-ports.ts'
import { isHealthy } from '../host/health.ts'
import { waitUntil } from '../host/wait-until.ts'

const READY_MS = 60_000

/** Pods that select this label land on fake nodes; the taint keeps all others away. */
export const KWOK_LABEL = { type: 'kwok' }
const KWOK_TAINT = { key: 'kwok.x-k8s.io/node', value: 'fake', effect: 'NoSchedule' }
export const KWOK_TOLERATION = { key: KWOK_TAINT.key, operator: 'Exists', effect: KWOK_TAINT.effect }

/** Without stages kwok has no work and exits. These stages make nodes and pods ready at once. */
const STAGES = [
  'node/fast/node-initialize.yaml',
  'node/heartbeat-with-lease/node-heartbeat-with-lease.yaml',
  'pod/fast/pod-ready.yaml',
  'pod/fast/pod-complete.yaml',
  'pod/fast/pod-delete.yaml',
]

/** Starts kwok and the requested fake nodes, and waits until they are ready. */
export async function startKwok(context: ClusterContext): Promise<void> {
  if (context.options.kwokNodes === 0) return
  const kubeconfig = context.kubeconfigFor('kwok', { commonName: 'kwok', organization: 'system:masters' })
  const daemon = await withFreePorts(1, async ([port]) => {
    const health = `http://127.0.0.1:${port}/healthz`
    const started = context.run({
      name: 'kwok',
      health,
      argv: [
        context.tools.bin('kubernetes', 'kwok'),
        `--kubeconfig=${kubeconfig}`,
        '--manage-all-nodes=false',
        '--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake',
        // No packet reaches a fake pod. The range must only differ from the real ranges.
        '--cidr=10.99.0.0/16',
        '--node-ip=127.0.0.1',
        '--node-lease-duration-seconds=40',
        `--server-address=127.0.0.1:${port}`,
        ...STAGES.map((stage) => `--config=${context.tools.share('kubernetes', `kwok-stages/${stage}`)}`),
      ],
    })
    await waitUntil({ what: 'kwok', timeoutMs: READY_MS, needs: [started] }, async () =>
      (await isHealthy(health)) ? true : undefined,
    )
    return started
  })
  const client = context.client()
  const names = Array.from({ length: context.options.kwokNodes }, (_, index) => `kwok-${index}`)
  for (const name of names) await client.apply(fakeNode(name))
  await waitUntil(
    { what: 'the fake nodes', timeoutMs: READY_MS, needs: [daemon], everyMs: 100 },
    async () => {
      const { items } = await client.list({ apiVersion: 'v1', plural: 'nodes' }, 'type=kwok')
      const ready = items.filter((node) => conditionOf(node, 'Ready')?.status === 'True')
      return ready.length === names.length ? true : undefined
    },
  )
}

function fakeNode(name: string): KubeObject {
  const capacity = { cpu: '64', memory: '256Gi', 'ephemeral-storage': '1Ti', pods: '5000' }
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      name,
      annotations: { 'kwok.x-k8s.io/node': 'fake', 'node.alpha.kubernetes.io/ttl': '0' },
      labels: {
        ...KWOK_LABEL,
        'kubernetes.io/hostname': name,
        'kubernetes.io/os': 'linux',
        'kubernetes.io/arch': 'amd64',
      },
    },
    spec: { taints: [KWOK_TAINT] },
    status: { allocatable: capacity, capacity },
  }
}
