import { dirname, join } from 'node:path'
import type { BoundSandbox, ClaimRequest, SandboxProvider, SandboxWarning } from '../../sandboxes/provider.ts'
import type { LocalEgress } from './local-egress.ts'

/** In the private folder of a sandbox, of which commands see only the folder of the other socket. */
const BROKER_SOCKET = 'broker'

/** A provider whose sandboxes reach the network through the egress proxy, from their claim until their release. */
export function withEgress(provider: SandboxProvider, egress: LocalEgress): SandboxProvider {
  return {
    name: provider.name,
    namespace: provider.namespace,
    start: () => provider.start(),
    draft: (claimName) => provider.draft(claimName),
    claim: async (request) => connected(await provider.claim(request), request, egress),
    collect: (handle) => provider.collect(handle),
    async close() {
      await provider.close()
      await egress.stop()
    },
  }
}

async function connected(
  sandbox: BoundSandbox,
  { runId, generation, kind, signal }: ClaimRequest,
  egress: LocalEgress,
): Promise<BoundSandbox> {
  const socketPath = sandbox.egressSocket
  if (socketPath === undefined || !sandbox.isolation.enforcesEgress) return sandbox
  const brokerPath = join(dirname(dirname(socketPath)), BROKER_SOCKET)
  const close = () => egress.close({ runId, generation })
  void sandbox.lost.then(close)
  const opening = egress.open({ runId, generation, kind, socketPath, brokerPath, signal })
  const hosts = await opening.catch(async (error: unknown) => {
    await sandbox.release('its way to the network could not be opened')
    throw error
  })
  return {
    ...sandbox,
    warnings: [...sandbox.warnings, ...loosened(hosts, sandbox)],
    async release(reason) {
      try {
        await sandbox.release(reason)
      } finally {
        await close()
      }
    },
  }
}

const loosened = (hosts: readonly string[], { isolation }: BoundSandbox): SandboxWarning[] =>
  hosts.length === 0
    ? []
    : [
        {
          category: 'egress-by-name',
          message: `the egress proxy passes TLS to these hosts on unread and does not enforce the methods and paths of their entries, because the entries have "splice: allow": ${hosts.join(', ')}`,
          backend: isolation.backend,
        },
      ]
