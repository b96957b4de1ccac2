import { expect, it } from 'vitest'
import { allowlist } from '../../policies/agent/egress/allowlist.ts'
import { loadEgressPolicy } from '../../policies/agent/egress/load.ts'
import { resolveEgress } from '../../policies/agent/egress/resolve.ts'
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
