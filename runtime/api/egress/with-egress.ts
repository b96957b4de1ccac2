import type { AgentHostClient } from '../../agent-host-client/client.ts'
import type {
  BoundSandbox,
  ClaimRequest,
  SandboxProvider,
  SandboxWarning,
  SharedSandboxes,
} from '../../sandboxes/provider.ts'

/** The egress proxy of this machine, or of the cluster. */
export interface SandboxEgress {
  /** Prepares the network of a sandbox. Undefined if the sandbox has no way to the proxy. */
  connect(sandbox: BoundSandbox, served: ServedRun): Promise<SandboxNetwork | undefined>
  stop(): Promise<void>
}

export type ServedRun = Pick<ClaimRequest, 'runId' | 'generation' | 'kind' | 'signal'>

export interface SandboxNetwork {
  /** Hosts whose limits the proxy cannot enforce. */
  readonly loosened: readonly string[]
  /** The company's proxy, behind which addresses are not checked. */
  readonly upstreamProxy?: string | undefined
  /** The agent connects to its servers itself, with a credential that AgentHost holds. @default false */
  readonly holdsCredential?: boolean
  /** The requests to the model are plain HTTP up to the proxy, in a network that is not known to be encrypted. @default false */
  readonly isModelReadable?: boolean
  /** Opens the network, once the sandbox is configured. Absent if it is open. */
  readonly open?: (client: AgentHostClient) => Promise<void>
  /** Leaves the network to another process. */
  readonly leave?: () => void
  /** Closes all connections. Never fails: a sandbox must be released even if its network cannot be closed. */
  readonly close: () => Promise<void>
}

/** A provider whose sandboxes reach the network through the egress proxy, from their claim until their release. */
export function withEgress(provider: SandboxProvider, egress: SandboxEgress): SandboxProvider {
  const { checks, claims, shared, identities } = provider
  return {
    name: provider.name,
    namespace: provider.namespace,
    start: () => provider.start(),
    ...(checks && { checks: () => checks.call(provider) }),
    pools: () => provider.pools(),
    draft: (claimName) => provider.draft(claimName),
    claim: async (request) => connected(await provider.claim(request), request, egress),
    collect: (handle) => provider.collect(handle),
    ...(claims && { claims }),
    ...(shared && { shared: sharedWith(shared, egress) }),
    ...(identities && { identities }),
    async close() {
      await provider.close()
      await egress.stop()
    },
  }
}

const sharedWith = (shared: SharedSandboxes, egress: SandboxEgress): SharedSandboxes => ({
  attach: async (request) => connected(await shared.attach(request), request, egress),
  locate: (request) => shared.locate(request),
})

async function connected(
  sandbox: BoundSandbox,
  served: ServedRun,
  egress: SandboxEgress,
): Promise<BoundSandbox> {
  const network = await egress.connect(sandbox, served).catch(async (error: unknown) => {
    await sandbox.release('its way to the network could not be opened')
    throw error
  })
  if (!network) return sandbox
  const { open, leave, close } = network
  void sandbox.lost.then(close)
  return {
    ...sandbox,
    warnings: [...sandbox.warnings, ...warningsOf(network, sandbox)],
    ...(open && { openNetwork: open }),
    detach() {
      leave?.()
      sandbox.detach()
    },
    async release(reason) {
      // First, so that the proxy reports its counts before the run ends.
      await close()
      await sandbox.release(reason)
    },
  }
}

function warningsOf(
  { loosened, upstreamProxy, holdsCredential, isModelReadable }: SandboxNetwork,
  { isolation: { backend } }: BoundSandbox,
): SandboxWarning[] {
  const warnings: SandboxWarning[] = []
  if (loosened.length > 0) {
    const message = `the egress proxy passes TLS to these hosts on unread and does not enforce the methods and paths of their entries, because the entries have "splice: allow": ${loosened.join(', ')}`
    warnings.push({ category: 'egress-by-name', message, backend })
  }
  if (upstreamProxy !== undefined) {
    const message = `the egress proxy reaches hosts through the upstream proxy ${upstreamProxy}, which resolves their names, so their addresses are not checked`
    warnings.push({ category: 'egress-upstream-proxy', message, backend })
  }
  if (holdsCredential) {
    const message =
      'the agent connects to its servers itself, so the credential for its model is in the memory of AgentHost and of the agent runtime, and the egress proxy does not read the requests'
    warnings.push({ category: 'credential-in-sandbox', message, backend })
  }
  if (isModelReadable) {
    const message =
      'the requests of the agent to its model are plain HTTP between its pod and the egress proxy, and the operator has not said that the network of the cluster encrypts them (egress.isNetworkEncrypted)'
    warnings.push({ category: 'cleartext-model-route', message, backend })
  }
  return warnings
}
