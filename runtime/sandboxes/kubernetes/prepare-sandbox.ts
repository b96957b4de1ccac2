import { HostHealth } from '../../../contracts/host-health.ts'
import { AGENT_HOST_ROUTES } from '../../../contracts/routes.ts'
import type { ConnectionGuard, NewConnection } from '../../agent-host-client/connection-guard.ts'
import { type PreparedConnections, prepareConnections } from '../../agent-host-client/verified-connections.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { AwaitOptions, BoundClaim } from './claims/await-bound.ts'
import { PodObject, type SandboxObject } from './claims/claim-objects.ts'
import type { KubeApi } from './client/kube-api.ts'
import { podsIn } from './client/resource.ts'
import { type Expected, followChain, foreseeChain, type PinnedIdentity } from './identity/identity-chain.ts'
import type { IssuerKeys } from './identity/issuer-keys.ts'
import { createPodGuard } from './identity/pod-guard.ts'

/** The event stream and the first turn are sent in parallel; the configuration goes first, on one of the two connections. */
const FIRST_REQUESTS = 2

type Parts = {
  readonly api: KubeApi
  readonly keys: IssuerKeys
  readonly agentHostPort: number
  readonly signal: AbortSignal
  /** Called with each pod that the claim will probably get. */
  readonly onForeseen: (pinned: PinnedIdentity) => void
}

/** Connections to a verified pod, before any data of the run is sent. */
export type OpenedAhead = {
  readonly prepared: PreparedConnections
  /** The health of the verified pod; undefined if its answer could not be parsed. */
  readonly health: Promise<HostHealth | undefined>
}

type Opened = OpenedAhead & { readonly pinned: PinnedIdentity }

/**
 * Prepares while the controller is still binding the claim: reads the pod of the chosen Sandbox and, as soon as the Sandbox
 * belongs to the claim, opens connections and verifies the pod's token. The result is used only if the complete identity
 * chain ends at the same pod.
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
    /** Errors are ignored here: `pin` verifies the complete chain later. */
    onAdopted: (sandbox): void => void open(sandbox).catch(() => undefined),
    /**
     * Verifies the complete chain. The pod that was read ahead comes from the API server's cache and may be stale, so on a
     * mismatch the pod is read again from etcd.
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
    /** Returns the open connections if they lead to this pod, otherwise opens new ones. */
    openTo(pinned: PinnedIdentity): OpenedAhead {
      isOver = true
      if (opened && isSame(opened.pinned, pinned)) return opened
      opened?.prepared.close()
      opened = { pinned, ...connectTo(parts, pinned) }
      return opened
    },
    /** Closes the connections after a failed claim. */
    abandon(): void {
      isOver = true
      opened?.prepared.close()
    },
  } satisfies Pick<AwaitOptions, 'onChosen' | 'onAdopted'> & Record<string, unknown>
}

/** Reads the pod of a Sandbox; both have the same name. */
export async function readPod(
  get: KubeApi['get'],
  { namespace, name }: SandboxObject['metadata'],
  signal: AbortSignal,
): Promise<PodObject> {
  const found = await get(podsIn(namespace), name, signal)
  if (found === undefined) throw new SandboxError('sandbox_lost', `the pod ${name} is gone`)
  return PodObject.parse(found)
}

/** Address of a pod's AgentHost, and the guard that verifies each connection to it. */
export const hostAt = (
  { keys, agentHostPort }: Pick<Parts, 'keys' | 'agentHostPort'>,
  pinned: PinnedIdentity,
) => ({
  baseUrl: `http://${pinned.podIp.includes(':') ? `[${pinned.podIp}]` : pinned.podIp}:${agentHostPort}`,
  guard: createPodGuard(keys, pinned),
})

/**
 * Also reads `GET /healthz`, which needs no bearer token, on the last connection: it is the last one to be used.
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

/** Returns undefined for an invalid answer: the health is read again when the sandbox is used. */
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
