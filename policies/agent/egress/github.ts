import type { Destination } from './schema.ts'

/** Names of the API of GitHub and of Copilot, and patterns that include them. */
const OF_GITHUB = /^(?:\*\.|api\.)(?:github|(?:[a-z]+\.)?githubcopilot)\.com$/

/**
 * Whether the proxy inserts an owner's token wherever an agent of kind `copilot` sends it: an operator's list may differ.
 * `ofAgentHost`: the entries for AgentHost.
 */
export function insertsGitHubToken(ofAgentHost: readonly Pick<Destination, 'host' | 'accepts'>[]): boolean {
  const ofGitHub = ofAgentHost.filter(({ host }) => OF_GITHUB.test(host))
  return ofGitHub.length > 0 && ofGitHub.every(({ accepts }) => accepts === 'github')
}
