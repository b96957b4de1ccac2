import { insertsGitHubToken } from '../../policies/agent/egress/github.ts'
import type { EgressPolicy } from '../../policies/agent/egress/load.ts'
import type { Environment } from './schema.ts'

/**
 * Whether AgentHost reads GitHub tokens of owners from their vault, with an Azure identity of its own. Only agents of kind
 * `copilot` use them. In mode `proxy`, the egress proxy inserts them instead, if each entry of the policy for a host of GitHub
 * accepts them.
 */
export function readsUserVault(
  { egress, infra, models }: Pick<Environment, 'egress' | 'infra' | 'models'>,
  { classes }: EgressPolicy,
): boolean {
  if (!infra.azure || !models.copilot) return false
  return (
    egress.mode !== 'proxy' ||
    !insertsGitHubToken(classes.agent.filter(({ caller }) => caller === 'agent-host'))
  )
}
