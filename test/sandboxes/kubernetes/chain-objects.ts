import { randomUUID } from 'node:crypto'
import { CLAIM } from '../../../contracts/claim.ts'
import {
  ClaimObject,
  PodObject,
  SandboxObject,
} from '../../../runtime/sandboxes/kubernetes/claims/claim-objects.ts'
import type { Expected, Links } from '../../../runtime/sandboxes/kubernetes/identity/identity-chain.ts'
import { mergePatch } from '../../fakes/kube/object-store.ts'

export const NAMESPACE = 'sandboxes'
export const CLAIM_NAME = 'agent-0123'
export const SANDBOX_NAME = 'pool-abcde'
export const POD_IP = '10.0.0.7'

/** A bound claim, its Sandbox and its pod in the JSON form that the controller produces. */
export function aChain() {
  const [claimUid, sandboxUid, podUid] = [randomUUID(), randomUUID(), randomUUID()]
  const metadata = (name: string, uid: string) => ({ name, namespace: NAMESPACE, uid, resourceVersion: '7' })
  const version = CLAIM.version
  const claim = {
    metadata: metadata(CLAIM_NAME, claimUid),
    spec: { warmPoolRef: { name: 'pool' } },
    status: {
      conditions: [{ type: 'Ready', status: 'True', reason: 'DependenciesReady' }],
      sandbox: { name: SANDBOX_NAME, podIPs: [POD_IP] },
    },
  }
  const sandbox = {
    metadata: {
      ...metadata(SANDBOX_NAME, sandboxUid),
      ownerReferences: [owner(`${CLAIM.group}/${version}`, CLAIM.kind, { name: CLAIM_NAME, uid: claimUid })],
    },
    status: {
      podIPs: [POD_IP],
      conditions: [{ type: 'Ready', status: 'True', reason: 'DependenciesReady' }],
    },
  }
  const pod = {
    metadata: {
      ...metadata(SANDBOX_NAME, podUid),
      ownerReferences: [
        owner(`agents.x-k8s.io/${version}`, 'Sandbox', { name: SANDBOX_NAME, uid: sandboxUid }),
      ],
    },
    spec: { runtimeClassName: 'gvisor', serviceAccountName: 'agent-host' },
    status: { phase: 'Running', podIP: POD_IP, podIPs: [{ ip: POD_IP }] },
  }
  const expected: Expected = {
    namespace: NAMESPACE,
    claimName: CLAIM_NAME,
    claimUid,
    runtimeClass: 'gvisor',
    serviceAccount: 'agent-host',
  }
  return { claim, sandbox, pod, expected }
}

export type Chain = ReturnType<typeof aChain>
export type Tampering = { [K in 'claim' | 'sandbox' | 'pod']?: (object: Chain[K]) => unknown }

/** Applies a change to one object of the chain and parses all three with the provider's schemas. */
export function tamper(chain: Chain, tampering: Tampering): Links {
  const part = <K extends 'claim' | 'sandbox' | 'pod'>(key: K) =>
    mergePatch(chain[key], tampering[key]?.(chain[key]) ?? {})
  return {
    claim: ClaimObject.parse(part('claim')),
    sandbox: SandboxObject.parse(part('sandbox')),
    pod: PodObject.parse(part('pod')),
  }
}

type Named = { readonly name: string; readonly uid: string }

export const owner = (apiVersion: string, kind: string, named: Named) => ({
  apiVersion,
  kind,
  ...named,
  controller: true,
  blockOwnerDeletion: true,
})
