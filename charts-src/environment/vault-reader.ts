import { insertsGitHubToken } from '../../policies/agent/egress/github.ts'
import type { EgressPolicy } from '../../policies/agent/egress/load.ts'
import type { Environment } from './schema.ts'

/**
 * Whether AgentHost reads the GitHub tokens of owners from the vault, for which it needs an Azure identity. Only agents of kind
 * `copilot` use these tokens. In mode `proxy`, the egress proxy inserts them if each entry of the policy for a host of GitHub has
 * `accepts: github`.
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
