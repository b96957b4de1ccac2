import type { Environment } from './schema.ts'

type Azure = NonNullable<Environment['infra']['azure']>
type Identity = NonNullable<Azure['identities']['agentHost']>

/** Where an AgentHost that reads the vault of users' tokens signs in, and as whom. */
export type VaultReader = Azure & { readonly identities: { readonly agentHost: Identity } }

/**
 * What AgentHost needs to read the GitHub tokens of owners from the vault. Only agents of kind `copilot` use these tokens, and in mode
 * `proxy` the egress proxy inserts them.
 */
export function vaultReader({ egress, infra, models }: Around): VaultReader | undefined {
  const agentHost = infra.azure?.identities.agentHost
  if (!infra.azure || !agentHost || !readsVault({ egress, infra, models })) return undefined
  return { ...infra.azure, identities: { ...infra.azure.identities, agentHost } }
}

type Around = Pick<Environment, 'egress' | 'infra' | 'models'>

const readsVault = ({ egress: { mode }, infra: { azure }, models: { copilot } }: Around): boolean =>
  azure !== undefined && copilot !== undefined && mode === 'fqdn'

/** The identity exists only in a stack with the same mode. */
export const vaultReaderMistakes = (around: Around): string[] =>
  readsVault(around) && !around.infra.azure?.identities.agentHost
    ? [
        'infra.azure.identities.agentHost: is missing, and in mode fqdn AgentHost reads the tokens of owners from the vault: set agentweaver:egress.mode of the stack to fqdn, and run "pulumi up" and "npm run environment" again',
      ]
    : []
