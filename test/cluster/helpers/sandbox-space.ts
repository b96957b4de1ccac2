import type { KubeObject, ResourcePath } from '../../../devcluster/client/kube-object.ts'
import { type Condition, conditionOf } from '../../../devcluster/client/manifests.ts'
import {
  aPool,
  CORE_API,
  EXTENSIONS_API,
  type TemplateParts,
} from '../../../devcluster/client/sandbox-objects.ts'
import { waitUntil } from '../../../devcluster/host/wait-until.ts'
import { type TestNamespace, useNamespace } from './namespace.ts'
import { aClaim, aTemplate, type ClaimParts } from './sandbox-objects.ts'

const WAIT_MS = 45_000
const POLL_MS = 25

/** A namespace with the operations that every suite about claims uses. */
export function useSandboxSpace(prefix: string) {
  return createSandboxSpace(useNamespace(prefix))
}

/** The same operations in an existing namespace. */
export function createSandboxSpace(space: TestNamespace) {
  const { client, name: namespace } = space
  const path = (plural: string, name: string): ResourcePath => {
    const apiVersion = { sandboxes: CORE_API, pods: 'v1', persistentvolumeclaims: 'v1', services: 'v1' }[
      plural
    ]
    return { apiVersion: apiVersion ?? EXTENSIONS_API, plural, namespace, name }
  }

  function eventually<T>(what: string, probe: () => Promise<T | undefined>, timeoutMs = WAIT_MS): Promise<T> {
    return waitUntil({ what, timeoutMs, everyMs: POLL_MS }, probe)
  }

  const moves = {
    ...space,
    path,
    eventually,
    claim: (name: string) => client.get(path('sandboxclaims', name)),
    sandbox: (name: string) => client.get(path('sandboxes', name)),
    pod: (name: string) => client.get(path('pods', name)),

    /** A template and a pool of the same name, and its members once all are ready. */
    async fillPool(
      name: string,
      replicas: number,
      parts: Partial<TemplateParts> = {},
    ): Promise<KubeObject[]> {
      await client.create(aTemplate(space, name, parts))
      await client.create(aPool(space, name, { template: name, replicas }))
      return moves.waitForPool(name, replicas)
    },
    waitForPool(name: string, replicas: number): Promise<KubeObject[]> {
      return eventually(`${replicas} ready members of pool ${name}`, async () => {
        const pool = await client.get(path('sandboxwarmpools', name))
        const members = await moves.members(name)
        return (pool['status']?.readyReplicas ?? 0) === replicas && members.length === replicas
          ? members
          : undefined
      })
    },
    /** Sandboxes that the pool owns: claimed ones belong to their claim. */
    async members(pool: string): Promise<KubeObject[]> {
      const { items } = await client.list({ ...path('sandboxes', ''), name: undefined })
      return items.filter(
        ({ metadata }) =>
          !metadata.deletionTimestamp &&
          metadata.ownerReferences?.some((owner) => owner.name === pool && owner.kind === 'SandboxWarmPool'),
      )
    },
    async postClaim(parts: ClaimParts, name = space.unique('claim')): Promise<string> {
      await client.create(aClaim(space, name, parts))
      return name
    },
    /** The claim, once its Ready condition is True and names a sandbox. */
    waitForBound(name: string): Promise<KubeObject> {
      return eventually(`claim ${name} to be bound`, async () => {
        const claim = await moves.claim(name)
        return isBound(claim) ? claim : undefined
      })
    },
    async bindClaim(parts: ClaimParts): Promise<KubeObject> {
      return moves.waitForBound(await moves.postClaim(parts))
    },
    waitForReason(name: string, reason: string, plural = 'sandboxclaims'): Promise<Condition> {
      return eventually(`${plural} ${name} to give the reason ${reason}`, async () => {
        const ready = conditionOf(await client.get(path(plural, name)), 'Ready')
        return ready?.reason === reason ? ready : undefined
      })
    },
    async waitUntilGone(plural: string, name: string): Promise<void> {
      await eventually(
        `${plural} ${name} to be gone`,
        async () => !(await client.find(path(plural, name))) || undefined,
      )
    },
  }
  return moves
}

export function isBound(claim: KubeObject): boolean {
  return conditionOf(claim, 'Ready')?.status === 'True' && sandboxOf(claim) !== ''
}

/** The name of the sandbox that a claim is bound to, empty before. */
export function sandboxOf(claim: KubeObject): string {
  return claim['status']?.sandbox?.name ?? ''
}

export function ownersOf({ metadata }: KubeObject): string[] {
  return (metadata.ownerReferences ?? []).map(({ kind, name }) => `${kind}/${name}`)
}
