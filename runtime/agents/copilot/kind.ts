import { SandboxError } from '../../kit/errors.ts'
import type { AgentKind, ModelSettings, ResolvedAgent } from '../kind.ts'
import { charterOf, invalidRequest, offeredModel, proxyTokenOf } from '../requested-model.ts'

/** GitHub's models. */
export const copilot = {
  connectsItself: true,
  inserted: 'github',
  resolve: (request, operator) => ({
    ...tokenOf(operator, operator.owner),
    agent: {
      kind: 'copilot',
      model: offeredModel(request, operator),
      ...charterOf(request),
      ...proxyTokenOf(operator),
      ...(operator.proxyRoot !== undefined && { proxyRoot: operator.proxyRoot }),
    },
  }),
  create: async ({ model, charter }, deps) => {
    const { createCopilotAgent } = await import('./copilot-agent.ts')
    const open = async () => {
      const gitHubToken = await deps.fetchToken()
      if (gitHubToken === undefined) throw absent()
      // Set on the session. A token of the client would be in the environment of the runtime's process.
      return { model, gitHubToken }
    }
    return createCopilotAgent(
      { name: model, charter, server: 'GitHub Copilot', credential: 'the GitHub token', open },
      deps,
    )
  },
} satisfies AgentKind<'copilot'>

/** The agent runtime sends this text in place of the token, which the egress proxy inserts. It has the form of a GitHub token. */
const INSERTED = 'gho_insertedByTheEgressProxyAgentweaver0'

/**
 * The token that the owner has set, from the store or by its name in the vault of user tokens. Without one, the operator's token.
 */
function tokenOf(
  { secretNameOf, gitHubTokenOf, lacksGitHubToken, copilotToken, proxyRoot }: ModelSettings,
  owner: string,
): Pick<ResolvedAgent, 'credential' | 'onUse'> {
  const own = gitHubTokenOf?.(owner)
  if (own && proxyRoot !== undefined) return { credential: { kind: 'token', token: INSERTED } }
  if (own?.token !== undefined) return { credential: { kind: 'token', token: own.token }, onUse: own.onUse }
  if (secretNameOf && !lacksGitHubToken?.(owner))
    return {
      credential: { kind: 'keyVault', secretName: secretNameOf(owner) },
      ...(own && { onUse: own.onUse }),
    }
  if (copilotToken) return { credential: { kind: 'token', token: copilotToken } }
  throw invalidRequest(
    'an agent of kind copilot needs a GitHub token: set yours with "agentweaver credential set github", or start the service with COPILOT_GITHUB_TOKEN',
  )
}

const absent = () =>
  new SandboxError('credential_absent', 'An agent of kind copilot needs the GitHub token of the run owner')
