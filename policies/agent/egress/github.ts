import type { Destination } from './schema.ts'

/** Names of the API of GitHub and of Copilot, and patterns that include them. */
const OF_GITHUB = /^(?:\*\.|api\.)(?:github|(?:[a-z]+\.)?githubcopilot)\.com$/

/**
 * Whether the proxy inserts the owner's token at each host of GitHub that an agent of kind `copilot` uses. The list of an operator may
 * lack `accepts: github`.
 * `ofAgentHost`: the entries for AgentHost.
 */
export function insertsGitHubToken(ofAgentHost: readonly Pick<Destination, 'host' | 'accepts'>[]): boolean {
  const ofGitHub = ofAgentHost.filter(({ host }) => OF_GITHUB.test(host))
  return ofGitHub.length > 0 && ofGitHub.every(({ accepts }) => accepts === 'github')
}
