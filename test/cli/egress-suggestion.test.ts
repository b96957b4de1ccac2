import { describe, expect, it } from 'vitest'
import { suggestEntries } from '../../cli/view/egress-suggestion.ts'
import type { DeniedEgress, RunEgress } from '../../contracts/run-egress.ts'
import { loadEgressPolicy } from '../../policies/agent/egress/load.ts'

const FILE = `apiVersion: agentweaver.io/v1
kind: EgressPolicy
name: mine
classes:
  # runs of an agent
  agent:
    - host: packages.example.com
      ports: [443]
      mode: full
      why: our own package registry
  command: []
`
const AT = '2026-01-01T00:00:00.000Z'
const denied = (change: Partial<DeniedEgress>): DeniedEgress => ({
  host: 'files.example.org',
  port: 443,
  rule: 'not-listed',
  reason: 'it is not listed',
  remedy: 'list it',
  count: 1,
  firstAt: AT,
  lastAt: AT,
  ...change,
})
const suggest = (refusals: DeniedEgress[], { text = FILE, kind = 'agent' as RunEgress['kind'] } = {}) =>
  suggestEntries(
    { runId: 'run_1', kind, denied: refusals, allowed: [], anomalies: [], hosts: [], isComplete: true },
    { name: 'egress.yaml', text },
  )
const addedLines = (diff: string) =>
  diff
    .split('\n')
    .filter((line) => /^[+-] /.test(line))
    .map((line) => line.trimEnd())

describe('a suggestion for the egress file', () => {
  it('adds one entry for each host that is not listed, at the end of its class', () => {
    const { diff, notSuggested } = suggest([denied({}), denied({ host: 'b.example.org', port: 8443 })])

    expect(notSuggested).toEqual([])
    expect(diff).toContain('--- egress.yaml')
    expect(addedLines(diff)).toEqual(
      expect.arrayContaining([
        '+    - host: files.example.org',
        '+      ports: [443]',
        '+      mode: read-only',
      ]),
    )
    expect(diff).toMatch(/our own package registry\n\+ {4}- host: files/)
    expect(diff).toMatch(/\+ {4}- host: b\.example\.org\n\+ {6}ports: \[8443\]/)
  })

  it('lists only the method that was used', () => {
    const { diff } = suggest([denied({ port: 80, method: 'POST' })])

    expect(addedLines(diff)).toEqual(
      expect.arrayContaining(['+      mode: full', '+      methods: [POST]', '+      http: allow']),
    )
  })

  it('adds a port to the entry of its host', () => {
    const { diff } = suggest([denied({ host: 'packages.example.com', port: 8443, rule: 'port' })])

    expect(addedLines(diff)).toEqual(['-      ports: [443]', '+      ports: [443, 8443]'])
  })

  it('adds an entry for commands at a host that only AgentHost has, and changes no entry of AgentHost', () => {
    const own = FILE.replace('      mode: full', '      mode: full\n      caller: agent-host')
    const host = 'packages.example.com'

    for (const one of [denied({ host }), denied({ host, rule: 'port', port: 8443 })]) {
      const { diff, notSuggested } = suggest([one], { text: own })
      expect(notSuggested).toEqual([])
      expect(addedLines(diff)).toContain(`+      ports: [${one.port}]`)
      expect(addedLines(diff).filter((line) => line.startsWith('-'))).toEqual([])
    }
    const both = own.replace(
      '  command',
      `    - host: ${host}\n      ports: [443]\n      mode: full\n      why: our own registry\n  command`,
    )
    expect(suggest([denied({ host, rule: 'port', port: 8443 })], { text: both })).toMatchObject({
      diff: '',
      notSuggested: [{ why: expect.stringContaining('an entry for this host. Change it by hand') }],
    })
  })

  it('begins a class that is empty', () => {
    const { diff } = suggest([denied({})], { kind: 'command' })

    expect(addedLines(diff)).toEqual(expect.arrayContaining(['-  command: []', '+  command:']))
  })

  it.each([
    ['a host without a single owner', denied({ host: 'github.io' })],
    ['a private address', denied({ rule: 'address' })],
    ['a name that is no host name', denied({ host: 'x, mode: full}\n    - host: evil.example.com' })],
    ['an address', denied({ host: '10.0.0.1' })],
    [
      'a host with an entry of other limits',
      denied({ host: 'packages.example.com', rule: 'method', method: 'PUT' }),
    ],
  ])('suggests nothing for %s, and says why', (_what, one) => {
    const { diff, notSuggested } = suggest([one])

    expect(diff).toBe('')
    expect(notSuggested).toMatchObject([{ denied: one, why: expect.stringMatching(/\w{3}/) }])
  })

  it('says that the settings of a run left a listed host out', () => {
    const reason = 'the settings of this run leave this host out'
    const { notSuggested } = suggest([
      denied({ host: 'packages.example.com', reason, remedy: 'Ask for it.' }),
    ])

    expect(notSuggested[0]?.why).toContain('The settings of this run leave this host out. Ask for it.')
  })

  it('is a file that the service reads', () => {
    const { diff } = suggest([denied({}), denied({ host: 'b.example.org' })])
    const added = diff
      .split('\n')
      .filter((line) => /^\+ /.test(line))
      .map((line) => line.slice(1))

    const text = FILE.replace('  command: []', `${added.join('\n')}\n  command: []`)

    expect(loadEgressPolicy(text).classes.agent.map(({ host }) => host)).toEqual([
      'packages.example.com',
      'files.example.org',
      'b.example.org',
    ])
  })
})
