import { expect, test } from 'vitest'
import { allowlist } from '../../policies/agent/egress/allowlist.ts'
import { cloneAccess, type GitUrl, parseGitUrl, refFault } from '../../policies/agent/egress/git-url.ts'
import { loadEgressPolicy } from '../../policies/agent/egress/load.ts'
import { resolveEgress } from '../../policies/agent/egress/resolve.ts'

const reasonOf = (url: string) => {
  const parsed = parseGitUrl(url)
  return parsed.ok ? undefined : parsed.reason
}

test.each([
  ['http://git.example.com/a/b', 'over https, not over http'],
  ['git://git.example.com/a/b', 'over https, not over git'],
  ['HTTP://git.example.com/a/b', 'over https, not over HTTP'],
  ['ssh://git@git.example.com/a/b', 'SSH has no way out of a sandbox'],
  [
    'git@github.com:owner/name.git',
    'Use the https URL of the repository: https://github.com/owner/name.git.',
  ],
  ['github.com:owner/name', 'SSH has no way out of a sandbox'],
  ['ext::sh -c id', 'contains a control character or a space'],
  ['ext::id', 'remote helper of git'],
  ['fd::17', 'remote helper of git'],
  ['file:///etc', 'not a path of a machine'],
  ['/etc', 'not a path of a machine'],
  ['../project', 'not a path of a machine'],
  ['C:\\project', 'not a path of a machine'],
  ['project', 'not a path of a machine'],
  ['-uhttps://git.example.com/a', 'over https'],
  ['https://user:secret@git.example.com/a/b', 'contains a user or a password'],
  ['https://secret@git.example.com/a/b', 'contains a user or a password'],
  ['https://git.example.com/a/b?token=secret', 'has a query or a fragment'],
  ['https://git.example.com/a/b#x', 'has a query or a fragment'],
  ['https://git.example.com/a\nb', 'control character'],
  ['https://git.example.com/a/../b', 'The path of the repository must be like owner/name'],
  ['https://git.example.com/a/%2e%2e/b', 'The path of the repository must be like owner/name'],
  ['https://git.example.com//a', 'The path of the repository must be like owner/name'],
  ['https://git.example.com/', 'The path of the repository must be like owner/name'],
  ['https://git.example.com', 'The path of the repository must be like owner/name'],
  ['https://git.example.com/-a/b', 'The path of the repository must be like owner/name'],
  ['https://10.0.0.1/a/b', 'must name its server'],
  ['https://0x7f000001/a/b', 'must name its server'],
  ['https://[::1]/a/b', 'must name its server'],
  ['https:///a/b', 'must name its server'],
  ['https://git.example.com:99999/a/b', 'must name its server'],
])('refuses %s', (url, reason) => {
  expect(reasonOf(url)).toContain(reason)
  expect(reasonOf(url)).not.toContain('secret')
})

test.each([
  ['https://git.example.com/a/b', { url: 'https://git.example.com/a/b', port: 443, path: 'a/b' }],
  ['HTTPS://Git.Example.COM./a/b.git/', { url: 'https://git.example.com/a/b.git', port: 443, path: 'a/b' }],
  [
    'https://git.example.com:8443/b.git',
    { url: 'https://git.example.com:8443/b.git', port: 8443, path: 'b' },
  ],
])('reads %s', (url, repository) => {
  expect(parseGitUrl(url)).toEqual({ ok: true, repository: { host: 'git.example.com', ...repository } })
})

test.each([
  ['-b', 'begins with "-"'],
  ['--upload-pack=id', 'begins with "-"'],
  ['main\n', 'control character'],
  ['a b', 'must be the name'],
  ['a..b', 'must be the name'],
  ['a@{1}', 'must be the name'],
  ['a:b', 'must be the name'],
  ['+a', 'must be the name'],
  ['a*', 'must be the name'],
  ['a.lock', 'must be the name'],
  ['/a', 'must be the name'],
  ['a/', 'must be the name'],
  ['$(id)', 'must be the name'],
])('refuses the ref %s', (ref, reason) => {
  expect(refFault(ref)).toContain(reason)
})

test.each(['main', 'feature/x-1', 'v1.0.0', 'refs/tags/v1', 'a'.repeat(40), 'release_1.2+build@x'])(
  'accepts the ref %s',
  (ref) => {
    expect(refFault(ref)).toBeUndefined()
  },
)

const POLICY = `
apiVersion: agentweaver.io/v1
kind: EgressPolicy
name: test
classes:
  agent:
    - { preset: git, host: git.example.com, mode: read-only, repositories: [team/app], why: for this test }
    - { preset: npm, why: for this test }
    - { host: open.example.com, ports: [443], mode: full, why: for this test }
    - { host: reads.example.com, ports: [443], mode: read-only, why: for this test }
    - { host: part.example.com, ports: [443], mode: full, paths: ['/team/**'], why: for this test }
    - { host: early.example.com, ports: [443], mode: full, phases: [setup], why: for this test }
    - { host: agent.example.com, ports: [443], mode: full, caller: agent-host, why: for this test }
  command: []
`
const destinations = allowlist(resolveEgress(loadEgressPolicy(POLICY, 'test'), {}), 'agent', 'laptop')

test.each([
  ['https://git.example.com/team/app', 'allowed'],
  ['https://git.example.com/team/app.git', 'allowed'],
  ['https://git.example.com/team/app2', 'repository'],
  ['https://git.example.com/team', 'repository'],
  ['https://git.example.com:8443/team/app', 'host'],
  ['https://registry.npmjs.org/team/app', 'repository'],
  ['https://open.example.com/any/thing', 'allowed'],
  ['https://reads.example.com/any/thing', 'repository'],
  ['https://part.example.com/team/a/b', 'allowed'],
  ['https://part.example.com/other/a', 'repository'],
  ['https://early.example.com/a/b', 'host'],
  ['https://agent.example.com/a/b', 'host'],
  ['https://unknown.example.com/a/b', 'host'],
])('says how far the list allows to clone %s: %s', (url, access) => {
  const parsed = parseGitUrl(url)
  const { repository } = parsed as { repository: GitUrl }

  expect(cloneAccess(destinations, repository, 'work')).toBe(access)
})
