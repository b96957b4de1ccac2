import { expect, it } from 'vitest'
import type { UserCredential } from '../../contracts/user-credentials.ts'
import { allowlist } from '../../policies/agent/egress/allowlist.ts'
import { loadEgressPolicy, readEgressPolicyText } from '../../policies/agent/egress/load.ts'
import { resolveEgress } from '../../policies/agent/egress/resolve.ts'
import { withOwnCredential } from '../../runtime/api/credentials/own-destinations.ts'
import { createNetworkRules } from '../../runtime/api/egress/network-rules.ts'
import { type Decision, decide } from '../../runtime/egress/decide.ts'
import { parsePath } from '../../runtime/egress/path.ts'

const REPOSITORY = '/repos/team/app'
const POLICY = `
apiVersion: agentweaver.io/v1
kind: EgressPolicy
name: test
classes:
  agent:
    - { preset: github, mode: full, repositories: [team/app], why: the repository of the test }
  command: []
`
const DESTINATIONS = allowlist(resolveEgress(loadEgressPolicy(POLICY), {}), 'agent', 'laptop')

/** What the proxy decides about a request of a command to the API of GitHub, into which it would insert the owner's token. */
function requested(method: string, spelling: string): Decision {
  const path = parsePath(spelling)
  if (!path.ok) throw new Error(`the path ${spelling} cannot be read`)
  return decide(
    { runId: 'r', generation: 1, phase: 'work', destinations: DESTINATIONS },
    {
      host: { kind: 'name', name: 'api.github.com' },
      port: 443,
      caller: 'commands',
      protocol: 'https',
      request: { method, path: path.path, needs: [] },
    },
  )
}

const EXITS = [
  ['a gist', 'POST', '/gists'],
  ['a change of a gist', 'PATCH', '/gists/1'],
  ['a query that can do everything', 'POST', '/graphql'],
  ['a repository of the owner', 'POST', '/user/repos'],
  ['a repository of an organization', 'POST', '/orgs/team/repos'],
  ['a key of the owner', 'POST', '/user/keys'],
  ['the profile of the owner', 'PATCH', '/user'],
  ['an issue of another repository', 'POST', '/repos/team/other/issues/1/comments'],
  ['a fork', 'POST', `${REPOSITORY}/forks`],
  ['a file, without git', 'PUT', `${REPOSITORY}/contents/a`],
  ['a ref, without git', 'POST', `${REPOSITORY}/git/refs`],
  ['a deploy key', 'POST', `${REPOSITORY}/keys`],
  ['a webhook', 'POST', `${REPOSITORY}/hooks`],
  ['a secret of the CI', 'PUT', `${REPOSITORY}/actions/secrets/A`],
  ['a start of the CI', 'POST', `${REPOSITORY}/actions/workflows/a.yml/dispatches`],
  ['an event that starts the CI', 'POST', `${REPOSITORY}/dispatches`],
  ['a release', 'POST', `${REPOSITORY}/releases`],
  ['a merge', 'PUT', `${REPOSITORY}/pulls/1/merge`],
  ['a person with access', 'PUT', `${REPOSITORY}/collaborators/eve`],
  ['the settings of the repository', 'PATCH', REPOSITORY],
] as const

it.each(EXITS)("lets no command create or change %s with the owner's token", (_what, method, path) => {
  expect(requested(method, path)).toMatchObject({ ok: false })
})

it('lets commands read the repository, comment, and open a pull request', () => {
  expect(requested('GET', `${REPOSITORY}/pulls/1`)).toMatchObject({ ok: true })
  expect(requested('POST', `${REPOSITORY}/issues/1/comments`)).toMatchObject({ ok: true })
  expect(requested('POST', `${REPOSITORY}/pulls`)).toMatchObject({ ok: true })
})

const OWN: UserCredential = {
  ...{ kind: 'github', target: 'github.com', credentialId: 'own', fingerprint: 'f' },
  setAt: '2026-01-01T00:00:00.000Z',
}

/** What the proxy decides about a request of the agent itself, in a run whose owner has set a GitHub token. */
function requestedByAgent(name: string, method: string, spelling: string): Decision {
  const path = parsePath(spelling)
  if (!path.ok) throw new Error(`the path ${spelling} cannot be read`)
  const { ofAgentHost } = createNetworkRules(loadEgressPolicy(readEgressPolicyText()))
  const destinations = ofAgentHost.map((one) => withOwnCredential(one, [OWN], () => false).destination)
  return decide(
    { runId: 'r', generation: 1, phase: 'work', destinations },
    {
      ...{ host: { kind: 'name', name }, port: 443, caller: 'agent-host', protocol: 'https' },
      request: { method, path: path.path, needs: [] },
    },
  )
}

it.for([
  ['a task of a cloud agent', 'api.githubcopilot.com', 'POST', '/agents/swe/v1/jobs/team/app'],
  ['another task', 'api.business.githubcopilot.com', 'POST', '/agents/tasks'],
  ['a gist', 'api.github.com', 'POST', '/gists'],
  ['a repository', 'api.github.com', 'GET', '/repos/team/app/contents/a'],
  ['a plan of the owner', 'api.github.com', 'POST', '/copilot_internal/subscribe_limited_user'],
] as const)("inserts the owner's token into no request of the agent for %s", ([, host, method, path]) => {
  expect(requestedByAgent(host, method, path)).toMatchObject({ ok: false })
})

it('lets an agent ask for its session and call models', () => {
  const session = requestedByAgent('api.github.com', 'GET', '/copilot_internal/user')
  const models = requestedByAgent('api.business.githubcopilot.com', 'POST', '/chat/completions')

  for (const decision of [session, models])
    expect(decision).toMatchObject({ ok: true, destination: { credential: 'own', attach: {} } })
})
