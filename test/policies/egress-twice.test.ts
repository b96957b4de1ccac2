import { expect, it } from 'vitest'
import { loadEgressPolicy } from '../../policies/agent/egress/load.ts'

const WHY = 'why: because a test needs it'
const HOST = `host: a.example.com, ports: [443], mode: full, ${WHY}`
const OF_AGENT_HOST = `caller: agent-host, ${HOST}`

/** The destinations of a file whose first entry is in line 6. */
function load(...entries: string[]) {
  const lines = entries.map((entry) => `    - { ${entry} }`)
  const head = 'apiVersion: agentweaver.io/v1\nkind: EgressPolicy\nname: test\nclasses:\n  agent:'
  return loadEgressPolicy([head, ...lines, '  command: []', ''].join('\n')).classes.agent
}

it.each([
  [7, 'a.example.com', [HOST, HOST]],
  [8, 'a.example.com', [HOST, OF_AGENT_HOST, HOST]],
  [8, 'a.example.com', [OF_AGENT_HOST, HOST, OF_AGENT_HOST]],
  [7, 'registry.npmjs.org', [`preset: npm, ${WHY}`, HOST.replace('a.example.com', 'registry.npmjs.org')]],
  [7, 'registry.npmjs.org', [HOST.replace('a.example.com', 'registry.npmjs.org'), `preset: npm, ${WHY}`]],
])('an entry in line %i names %s a second time, and is refused', (line, host, entries) => {
  expect(() => load(...entries)).toThrow(
    `line ${line}: classes.agent.${line - 6}.host: ${host}:443 is named a second time; merge`,
  )
})

it('AgentHost may have its own entry for a host and port that commands have too', () => {
  expect(load(HOST, OF_AGENT_HOST).map(({ caller }) => caller)).toEqual([undefined, 'agent-host'])
  expect(load(HOST, HOST.replace('443', '8443'))).toHaveLength(2)
})
