import { HostHealth } from '../../../contracts/host-health.ts'
import { AGENT_HOST_ROUTES } from '../../../contracts/routes.ts'
import type { ConnectionGuard, NewConnection } from '../../agent-host-client/connection-guard.ts'
import { type PreparedConnections, prepareConnections } from '../../agent-host-client/new-connection.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { AwaitOptions, BoundClaim } from './claims/await-bound.ts'
import { PodObject, type SandboxObject } from './claims/claim-objects.ts'
import type { KubeApi } from './client/kube-api.ts'
import { podsIn } from './client/resource.ts'
import { type Expected, followChain, foreseeChain, type PinnedIdentity } from './identity/identity-chain.ts'
import type { IssuerKeys } from './identity/issuer-keys.ts'
import { createPodGuard } from './identity/pod-guard.ts'

/** The stream and the first turn go out together; the configuration goes before, on one of the two. */
const FIRST_REQUESTS = 2

type Parts = {
  readonly api: KubeApi
  readonly keys: IssuerKeys
  readonly agentHostPort: number
  readonly signal: AbortSignal
  /** Called with each pod that the claim will most likely get. */
  readonly onForeseen: (pinned: PinnedIdentity) => void
}

/** What there is of a pod before anything of a run is said to it. */
export type OpenedAhead = {
  readonly prepared: PreparedConnections
  /** What whoever proved to be that pod has said of itself; undefined where it said nothing that makes sense. */
  readonly health: Promise<HostHealth | undefined>
}

type Opened = OpenedAhead & { readonly pinned: PinnedIdentity }

/**
 * What is done for a claim while its controller still works on it: the pod of the sandbox that it chose is read, and as
 * soon as that sandbox belongs to the claim, whoever is at the pod's address is asked who it is. What comes of it counts
 * only where the chain, when it is complete, ends at the very same pod.
 */
export function prepareSandbox(parts: Parts, expected: Expected) {
  const { api, signal } = parts
  const ask = ({ metadata }: SandboxObject) => ({
    uid: metadata.uid,
    pod: readPod(api.getCached, metadata, signal),
  })
  let asked: ReturnType<typeof ask> | undefined
  let opened: Opened | undefined
  let isOver = false

  async function open(sandbox: SandboxObject): Promise<void> {
    if (asked?.uid !== sandbox.metadata.uid) return
    const pinned = foreseeChain(expected, { sandbox, pod: await asked.pod })
    if (isOver) return
    opened = { pinned, ...connectTo(parts, pinned) }
    parts.onForeseen(pinned)
  }

  return {
    onChosen(sandbox): void {
      asked = ask(sandbox)
      asked.pod.catch(() => undefined)
    },
    /** What speaks against the pod is said by the chain, which is followed when it is complete. */
    onAdopted: (sandbox): void => void open(sandbox).catch(() => undefined),
    /**
     * The complete chain. What was read ahead may be out of date, and came from the API server's memory as the claim and
     * its Sandbox did: where the chain does not hold with it, it is read now, from etcd.
     */
    async pin(bound: BoundClaim): Promise<PinnedIdentity> {
      const { metadata } = bound.sandbox
      if (asked?.uid === metadata.uid) {
        try {
          return followChain(expected, { ...bound, pod: await asked.pod })
        } catch {
          signal.throwIfAborted()
        }
      }
      return followChain(expected, { ...bound, pod: await readPod(api.get, metadata, signal) })
    },
    /** Connections to a pod that is proven: those that are open, or new ones. */
    openTo(pinned: PinnedIdentity): OpenedAhead {
      isOver = true
      if (opened && isSame(opened.pinned, pinned)) return opened
      opened?.prepared.close()
      opened = { pinned, ...connectTo(parts, pinned) }
      return opened
    },
    /** Ends what was opened, where the claim comes to nothing. */
    abandon(): void {
      isOver = true
      opened?.prepared.close()
    },
  } satisfies Pick<AwaitOptions, 'onChosen' | 'onAdopted'> & Record<string, unknown>
}

/** The pod of a Sandbox, which has its name. */
export async function readPod(
  get: KubeApi['get'],
  { namespace, name }: SandboxObject['metadata'],
  signal: AbortSignal,
): Promise<PodObject> {
  const found = await get(podsIn(namespace), name, signal)
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

/**
 * On the last connection, which is wanted last, the sandbox is asked too what it says of itself: it needs no bearer for
 * that.
 */
function connectTo(parts: Parts, pinned: PinnedIdentity): OpenedAhead {
  const { baseUrl, guard } = hostAt(parts, pinned)
  let accepted = 0
  let said: HostHealth | undefined
  const asking: ConnectionGuard = {
    verify: async (connection) => {
      await guard.verify(connection)
      accepted += 1
      if (accepted === FIRST_REQUESTS) said = await healthOn(connection)
    },
  }
  const prepared = prepareConnections(baseUrl, asking, FIRST_REQUESTS)
  return { prepared, health: prepared.settled.then(() => said) }
}

/** An answer that makes no sense is none: the sandbox is asked again when it is used, and judged by that. */
async function healthOn(connection: NewConnection): Promise<HostHealth | undefined> {
  const { body } = await connection.get(AGENT_HOST_ROUTES.healthz)
  try {
    return HostHealth.parse(JSON.parse(body))
  } catch {
    return undefined
  }
}

function isSame(one: PinnedIdentity, other: PinnedIdentity): boolean {
  return (Object.keys(one) as (keyof PinnedIdentity)[]).every((key) => one[key] === other[key])
}
