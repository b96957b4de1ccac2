import type { KubeClient } from '../client/kube-client.ts'
import type { KubeObject } from '../client/kube-object.ts'
import { waitUntil } from '../host/wait-until.ts'
import { CONTROL_PLANE, SANDBOXES } from './names.ts'

const READY_MS = 180_000
const POOLS = { apiVersion: 'extensions.agents.x-k8s.io/v1beta1', plural: 'sandboxwarmpools' }

export function isReady(pod: KubeObject): boolean {
  const conditions = (pod['status']?.conditions ?? []) as { type: string; status: string }[]
  return conditions.some(({ type, status }) => type === 'Ready' && status === 'True')
}

/** The pods of the API, including pods that are being deleted. */
export async function apiPods(client: KubeClient): Promise<KubeObject[]> {
  const { items } = await client.list({ apiVersion: 'v1', plural: 'pods', namespace: CONTROL_PLANE })
  return items.filter((pod) => pod.metadata['labels']?.['app.kubernetes.io/component'] === 'api')
}

export async function readyApiPods(client: KubeClient): Promise<KubeObject[]> {
  const pods = await apiPods(client)
  return pods.filter((pod) => isReady(pod) && pod.metadata['deletionTimestamp'] === undefined)
}

/** Waits for the two replicas of `environments/local.json`. */
export async function waitForApi(client: KubeClient): Promise<void> {
  await waitUntil({ what: 'two ready replicas of the API', timeoutMs: READY_MS, everyMs: 250 }, async () =>
    (await readyApiPods(client)).length === 2 ? true : undefined,
  )
}

export async function waitForPools(client: KubeClient): Promise<void> {
  await waitUntil({ what: 'full warm pools', timeoutMs: READY_MS, everyMs: 250 }, async () => {
    const { items } = await client.list({ ...POOLS, namespace: SANDBOXES })
    const isFull = (pool: KubeObject) => pool['status']?.readyReplicas === pool['spec'].replicas
    return items.length === 2 && items.every(isFull) ? true : undefined
  })
}
