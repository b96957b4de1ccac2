import { describe, expect, it } from 'vitest'
import { worldOf } from '../../charts-src/access-matrix/check-reachability.ts'
import { diagram, diagramEdges, escapeLabel, poolRows } from '../../charts-src/access-matrix/diagram.ts'
import type { KubeObject } from '../../charts-src/kube-object.ts'
import { readEgressPolicy } from '../../policies/agent/egress/load.ts'
import { anEnvironment, appsOf, ENVIRONMENTS, type EnvironmentName } from '../charts/fixture.ts'

const objectsOf = (name: EnvironmentName): KubeObject[] =>
  appsOf(anEnvironment(name)).flatMap(({ objects }) => [...objects])

function aWorld(name: EnvironmentName, objects = objectsOf(name)) {
  const outcome = worldOf(objects, anEnvironment(name), readEgressPolicy())
  if (!outcome.ok) throw new Error(JSON.stringify(outcome.faults))
  return outcome.world
}

describe('the diagram of permitted connections', () => {
  it.each(ENVIRONMENTS)('of %s defines every node that an arrow uses', (name) => {
    const lines = diagram(aWorld(name)).split('\n')

    const defined = lines.flatMap((line) => /^ +(\w+)\["/.exec(line)?.[1] ?? [])
    const used = lines.flatMap((line) => {
      const arrow = /^ +(\w+) -->(?:\|"[^"]+"\|)? (\w+)$/.exec(line)
      return arrow ? [arrow[1], arrow[2]] : []
    })
    expect(used.length).toBeGreaterThan(10)
    expect(used.filter((node) => !defined.includes(node ?? ''))).toEqual([])
  })

  it('shows a connection as soon as a policy opens it', () => {
    const opened: KubeObject = {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: { name: 'opened', namespace: 'agentweaver' },
      spec: {
        podSelector: {},
        policyTypes: ['Ingress'],
        ingress: [{ from: [{ namespaceSelector: {} }], ports: [{ port: 5000, protocol: 'TCP' }] }],
      },
    }
    const portsIn = (objects: KubeObject[]) =>
      diagramEdges(aWorld('prod', objects))
        .filter(({ from, to }) => from === 'monitoring' && to === 'api')
        .map(({ ports }) => ports)

    expect(portsIn(objectsOf('prod'))).toEqual(['TCP 9090'])
    expect(portsIn([...objectsOf('prod'), opened])).toEqual(['TCP 5000, 9090'])
  })

  it('contains the port of every connection from the API to a sandbox', () => {
    const text = diagram(aWorld('prod'))

    expect(text).toContain('api -->|"TCP 8088"| agent')
    expect(text).toContain('api -->|"TCP 8088"| command')
    expect(text).toContain('agent -->|"TCP 3128"| proxy')
    expect(text).toContain('command -->|"TCP 3128"| proxy')
    expect(text).not.toContain('agent --> listed_names')
  })

  it('escapes characters that end a label or start markup', () => {
    expect(escapeLabel('<b>"a" & b')).toBe('#60;b#62;#34;a#34; #38; b')
  })

  it('lists the template, the isolation and the tokens of each pool', () => {
    const [agent, command] = poolRows(objectsOf('prod'))

    expect(agent).toEqual([
      '`agentweaver-agent`',
      '9',
      '`agentweaver-agent`',
      '`agentweaver-kata`',
      '`agentweaver-agent-host`',
      'agent-host: cpu 1, memory 512Mi; toolbox: cpu 1, memory 1536Mi',
      '`agentweaver-api`',
    ])
    expect(command?.at(-1)).toBe('`agentweaver-api`')
  })
})
