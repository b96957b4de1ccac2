import { type PreparedConnections, prepareConnections } from '../../agent-host-client/new-connection.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { AwaitOptions, BoundClaim } from './claims/await-bound.ts'
import { PodObject, type SandboxObject } from './claims/claim-objects.ts'
import type { KubeApi } from './client/kube-api.ts'
import { podsIn } from './client/resource.ts'
import { type Expected, followChain, foreseeChain, type PinnedIdentity } from './identity/identity-chain.ts'
import type { IssuerKeys } from './identity/issuer-keys.ts'
import { createPodGuard } from './identity/pod-guard.ts'

/** The configuration and the sandbox's own words, which are asked for together; the stream and the turn take over. */
const FIRST_REQUESTS = 2

type Parts = {
  readonly api: KubeApi
  readonly keys: IssuerKeys
  readonly agentHostPort: number
  readonly signal: AbortSignal
}

type Opened = { readonly pinned: PinnedIdentity; readonly connections: PreparedConnections }

/**
 * What is done for a claim while its controller still works on it: the pod of the sandbox that it chose is read, and as
 * soon as that sandbox belongs to the claim, whoever is at the pod's address is asked who it is. What comes of it counts
 * only where the chain, when it is complete, ends at the very same pod.
 */
export function prepareSandbox(parts: Parts, expected: Expected) {
  const { api, signal } = parts
  const ask = ({ metadata }: SandboxObject) => ({
    uid: metadata.uid,
    pod: readPod(api, metadata, signal),
  })
  let asked: ReturnType<typeof ask> | undefined
  let opened: Opened | undefined
  let isOver = false

  async function open(sandbox: SandboxObject): Promise<void> {
    if (asked?.uid !== sandbox.metadata.uid) return
    const pinned = foreseeChain(expected, { sandbox, pod: await asked.pod })
    if (!isOver) opened = { pinned, connections: connectTo(parts, pinned) }
  }

  return {
    onChosen(sandbox): void {
      asked = ask(sandbox)
      asked.pod.catch(() => undefined)
    },
    /** What speaks against the pod is said by the chain, which is followed when it is complete. */
    onAdopted: (sandbox): void => void open(sandbox).catch(() => undefined),
    /** The complete chain. What was read ahead may be out of date: where the chain does not hold with it, it is read now. */
    async pin(bound: BoundClaim): Promise<PinnedIdentity> {
      const { metadata } = bound.sandbox
      if (asked?.uid === metadata.uid) {
        try {
          return followChain(expected, { ...bound, pod: await asked.pod })
        } catch {
          signal.throwIfAborted()
        }
      }
      return followChain(expected, { ...bound, pod: await readPod(api, metadata, signal) })
    },
    /** Connections to a pod that is proven: those that are open, or new ones. */
    connectionsTo(pinned: PinnedIdentity): PreparedConnections {
      isOver = true
      if (opened && isSame(opened.pinned, pinned)) return opened.connections
      opened?.connections.close()
      opened = { pinned, connections: connectTo(parts, pinned) }
      return opened.connections
    },
    /** Ends what was opened, where the claim comes to nothing. */
    abandon(): void {
      isOver = true
      opened?.connections.close()
    },
  } satisfies Pick<AwaitOptions, 'onChosen' | 'onAdopted'> & Record<string, unknown>
}

/** The pod of a Sandbox, which has its name. */
export async function readPod(
  api: KubeApi,
  { namespace, name }: SandboxObject['metadata'],
  signal: AbortSignal,
): Promise<PodObject> {
  const found = await api.get(podsIn(namespace), name, signal)
  if (found === undefined) throw new SandboxError('sandbox_lost', `the pod ${name} is gone`)
  return PodObject.parse(found)
}

/** Where the AgentHost of a pod is asked, and who may answer there. */
export const hostAt = (
  { keys, agentHostPort }: Pick<Parts, 'keys' | 'agentHostPort'>,
  pinned: PinnedIdentity,
) => ({
  baseUrl: `http://${pinned.podIp.includes(':') ? `[${pinned.podIp}]` : pinned.podIp}:${agentHostPort}`,
  guard: createPodGuard(keys, pinned),
})

function connectTo(parts: Parts, pinned: PinnedIdentity): PreparedConnections {
  const { baseUrl, guard } = hostAt(parts, pinned)
  return prepareConnections(baseUrl, guard, FIRST_REQUESTS)
}

function isSame(one: PinnedIdentity, other: PinnedIdentity): boolean {
  return (Object.keys(one) as (keyof PinnedIdentity)[]).every((key) => one[key] === other[key])
}
