import { randomUUID } from 'node:crypto'
import type { Pool } from '../../../contracts/diagnostics.ts'
import { CLAIM_NONCE_ANNOTATION, DEPLOYMENT_LABEL } from '../../../contracts/labels.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import type {
  BoundSandbox,
  ClaimRequest,
  DeploymentClaims,
  PodIdentities,
  ProviderCheck,
  SandboxProvider,
  SharedSandboxes,
} from '../provider.ts'
import { attachSandbox, type BindOptions, bindSandbox, locateSandbox } from './bind-sandbox.ts'
import { ClaimHandle } from './claims/claim-handle.ts'
import { ClaimObject } from './claims/claim-objects.ts'
import { createClaimWatches } from './claims/claim-watches.ts'
import { deleteClaim } from './claims/delete-claim.ts'
import { poolFigures } from './claims/pool-figures.ts'
import { watchForRoom } from './claims/watch-room.ts'
import { createKubeApi } from './client/kube-api.ts'
import { claimsIn } from './client/resource.ts'
import { loadIssuerKeys } from './identity/issuer-keys.ts'
import type { KubernetesProviderOptions } from './provider-options.ts'

type OpenCluster = Awaited<ReturnType<typeof openCluster>>

/** Sandboxes of a cluster: one claim each on a warm pool, two shared watches, and a UID chain to the pod. */
export class KubernetesProvider implements SandboxProvider {
  readonly name = 'kubernetes'
  readonly namespace: string
  readonly #options: KubernetesProviderOptions
  #running: Promise<OpenCluster> | undefined
  #open: OpenCluster | undefined

  constructor(options: KubernetesProviderOptions) {
    this.#options = options
    this.namespace = options.namespace
  }

  /** Throws if the cluster cannot be used. There is no fallback to a weaker backend. */
  async start(): Promise<void> {
    await this.#start()
  }

  checks(): readonly ProviderCheck[] {
    return this.#open?.watches.checks() ?? [{ name: 'cluster', ok: false, detail: 'not connected yet' }]
  }

  pools(): Pool[] {
    const { pool, deploymentId } = this.#options
    const { watches } = this.#open ?? {}
    return watches ? poolFigures(watches, { pool, deploymentId }) : []
  }

  draft(claimName: string): ClaimHandle {
    return { namespace: this.namespace, claimName, nonce: randomUUID() }
  }

  async claim(request: ClaimRequest): Promise<BoundSandbox> {
    return bindSandbox(await this.#parts(), { ...request, ...ClaimHandle.parse(request.handle) })
  }

  readonly shared: SharedSandboxes = {
    attach: async (request) => attachSandbox(await this.#parts(), request),
    locate: async (request) => locateSandbox(await this.#parts(), request),
  }

  readonly identities: PodIdentities = {
    verify: async (token, audience) => {
      const { keys } = await this.#start()
      const { sub = '', exp = 0 } = await keys.verify(token, audience)
      return { subject: sub, expiresAt: new Date(exp * 1000) }
    },
  }

  async collect(handle: unknown): Promise<void> {
    const { namespace, claimName, nonce } = ClaimHandle.parse(handle)
    const { api, watches } = await this.#start()
    const { deleteMs: timeoutMs, checkEveryMs } = this.#options.timing
    const found = await api.get(claimsIn(namespace), claimName, AbortSignal.timeout(timeoutMs))
    if (found === undefined) return
    const { metadata } = ClaimObject.parse(found)
    // Without our nonce it is not our claim.
    if (metadata.annotations?.[CLAIM_NONCE_ANNOTATION] !== nonce) return
    await deleteClaim({ api, watches, timeoutMs, checkEveryMs }, metadata)
  }

  readonly claims: DeploymentClaims = {
    onRoom: (listener) => {
      const following = this.#start().then(({ watches }) => watchForRoom(watches, listener))
      following.catch(() => undefined)
      return () => void following.then((unfollow) => unfollow()).catch(() => undefined)
    },
    list: async () => {
      const { watches } = await this.#start()
      const { deploymentId, namespace } = this.#options
      return watches.claims
        .list()
        .filter(({ metadata }) => metadata.labels?.[DEPLOYMENT_LABEL] === deploymentId)
        .map(({ metadata: { name, uid, creationTimestamp } }) => ({
          namespace,
          name,
          uid,
          createdAt: new Date(creationTimestamp ?? 0),
        }))
    },
    remove: async (claim) => {
      const { api, watches } = await this.#start()
      const { deleteMs: timeoutMs, checkEveryMs } = this.#options.timing
      return deleteClaim({ api, watches, timeoutMs, checkEveryMs }, claim)
    },
  }

  async close(): Promise<void> {
    const running = await this.#running?.catch(() => undefined)
    await running?.watches.close()
    await running?.api.close()
  }

  async #parts(): Promise<BindOptions> {
    const { timing, ...options } = this.#options
    return { ...options, ...timing, ...(await this.#start()) }
  }

  #start(): Promise<OpenCluster> {
    this.#running ??= openCluster(this.#options).then(
      (open) => {
        this.#open = open
        return open
      },
      (error: unknown) => {
        this.#running = undefined
        throw unusable(error)
      },
    )
    return this.#running
  }
}

async function openCluster({ connect, namespace, timing, log, clock }: KubernetesProviderOptions) {
  const api = createKubeApi(await connect(), timing.transport)
  const watches = createClaimWatches({ api, namespace, log, timing: timing.watch })
  try {
    const signal = AbortSignal.timeout(timing.startMs)
    const [keys] = await Promise.all([loadIssuerKeys({ api, signal, clock }), watches.start(signal)])
    return { api, watches, keys }
  } catch (error) {
    await watches.close()
    await api.close()
    throw error
  }
}

function unusable(cause: unknown): SandboxError {
  if (cause instanceof SandboxError && cause.code === 'invalid_config') return cause
  const message = `The cluster cannot be used, and there is no fallback: ${messageOf(cause)}`
  return new SandboxError('isolation_unavailable', message, { cause })
}
