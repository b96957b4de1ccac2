import { CLAIM } from '../../../contracts/claim.ts'
import type { KubeClient } from '../../../devcluster/client/kube-client.ts'
import type { KubeObject, ResourcePath } from '../../../devcluster/client/kube-object.ts'
import { CORE_API, EXTENSIONS_API } from '../../../devcluster/client/sandbox-objects.ts'
import { waitUntil } from '../../../devcluster/host/wait-until.ts'
import { LABEL } from '../helpers/sandbox-objects.ts'
import { isBound, sandboxOf } from '../helpers/sandbox-space.ts'
import { type ProbePodPlan, probePodSpec } from './probe-pod.ts'

const POOL_MS = 90_000
const BOUND_MS = 30_000
/** Half a minute at random and five seconds of grace, on a busy machine. */
const IDENTITY_MS = 120_000
const GONE_MS = 60_000

/** A warm pool whose sandboxes are probe pods, and one claim from it, step by step. */
export function createClaimLife(
  client: KubeClient,
  plan: Omit<ProbePodPlan, 'name'> & { readonly pool: string },
) {
  const { namespace, pool, labels = {}, ...pod } = plan
  const path = (plural: string, name?: string): ResourcePath => ({
    apiVersion: plural === 'sandboxes' ? CORE_API : EXTENSIONS_API,
    plural,
    namespace,
    name,
  })
  const podPath = (name: string): ResourcePath => ({ apiVersion: 'v1', plural: 'pods', namespace, name })
  const claimPath = path(CLAIM.plural, pool)
  const anObject = (kind: string, spec: unknown): KubeObject => ({
    apiVersion: EXTENSIONS_API,
    kind,
    metadata: { name: pool, namespace },
    spec,
  })

  return {
    podPath,
    /** The names of its pods once all are ready. */
    async fill(replicas: number): Promise<string[]> {
      const podTemplate = { metadata: { labels }, spec: probePodSpec(pod) }
      await client.create(anObject('SandboxTemplate', { networkPolicyManagement: 'Unmanaged', podTemplate }))
      await client.create(anObject('SandboxWarmPool', { replicas, sandboxTemplateRef: { name: pool } }))
      await waitUntil({ what: `pool ${pool}`, timeoutMs: POOL_MS, everyMs: 50 }, async () => {
        const { status } = await client.get(path('sandboxwarmpools', pool))
        return status?.readyReplicas === replicas
      })
      const { items } = await client.list(path('sandboxes'))
      return items.flatMap(({ metadata }) =>
        metadata.ownerReferences?.some(({ name }) => name === pool) ? [metadata.name] : [],
      )
    },
    /** Creates the claim and returns its pod's name. */
    async claim(): Promise<string> {
      await client.create(anObject(CLAIM.kind, { warmPoolRef: { name: pool } }))
      return waitUntil({ what: `a sandbox for ${pool}`, timeoutMs: BOUND_MS, everyMs: 5 }, async () => {
        const claim = await client.get(claimPath)
        return isBound(claim) ? sandboxOf(claim) : undefined
      })
    },
    /** The claim label of a pod. The controller writes it some time after the claim's status is bound. */
    claimUid: (name: string): Promise<string> =>
      waitUntil({ what: `the label of a claim on ${name}`, timeoutMs: BOUND_MS, everyMs: 5 }, async () => {
        const { labels } = (await client.get(podPath(name))).metadata
        return labels?.[LABEL.claimUid] || undefined
      }),
    /** Waits until the agent has assigned the pod the identity with the claim label. */
    async waitForIdentity(name: string): Promise<void> {
      const endpoint = { apiVersion: 'cilium.io/v2', plural: 'ciliumendpoints', namespace, name }
      await waitUntil(
        { what: `the new identity of ${name}`, timeoutMs: IDENTITY_MS, everyMs: 50 },
        async () => {
          const { status } = await client.get(endpoint)
          const found = (status?.identity?.labels ?? []) as readonly string[]
          return found.some((label) => label.includes(LABEL.claimUid))
        },
      )
    },
    async release(name: string): Promise<void> {
      await client.delete(claimPath)
      await waitUntil({ what: `pod ${name} to be gone`, timeoutMs: GONE_MS, everyMs: 25 }, async () =>
        (await client.find(podPath(name))) === undefined ? true : undefined,
      )
    },
    async drain(): Promise<void> {
      for (const plural of ['sandboxwarmpools', 'sandboxtemplates']) await client.delete(path(plural, pool))
    },
  }
}
