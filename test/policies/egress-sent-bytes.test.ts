import { describe, expect, it } from 'vitest'
import { allowlist } from '../../policies/agent/egress/allowlist.ts'
import { loadEgressPolicy } from '../../policies/agent/egress/load.ts'
import { narrow } from '../../policies/agent/egress/narrow.ts'
import { resolveEgress } from '../../policies/agent/egress/resolve.ts'

const listed = (entry: string) => {
  const text = `apiVersion: agentweaver.io/v1\nkind: EgressPolicy\nname: x\nclasses: {agent: [${entry}], command: []}\n`
  return allowlist(resolveEgress(loadEgressPolicy(text), {}), 'agent', 'proxy')
}

describe('maxSentMiB', () => {
  it.each([
    'preset: npm',
    'preset: git, host: git.example.com, mode: full, repositories: [a/b]',
    'preset: github, mode: read-only, repositories: [a/b]',
    'host: api.example.com, ports: [443], mode: full',
  ])('limits the bytes to each host of {%s}', (entry) => {
    const destinations = listed(`{${entry}, maxSentMiB: 2, why: the tests need this host}`)

    expect(destinations.length).toBeGreaterThan(0)
    for (const { host, maxSent } of destinations)
      expect(maxSent, host).toEqual({ bytes: 2_097_152, entry: host })
  })

  it('is one limit for a pattern that the settings of a run narrow to several hosts', () => {
    const pattern = listed(
      '{host: "*.example.com", ports: [443], mode: full, maxSentMiB: 2, why: the tests need this host}',
    )
    const hosts = ['a.example.com', 'b.example.com']

    const { destinations } = narrow(pattern, hosts)

    expect(destinations.map(({ host, maxSent }) => [host, maxSent?.entry])).toEqual(
      hosts.map((host) => [host, '*.example.com']),
    )
  })
})
