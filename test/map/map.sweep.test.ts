import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { KubeObject } from '../../charts-src/kube-object.ts'
import { isDrawn } from '../../charts-src/map/draw-map.ts'
import { mapModel } from '../../charts-src/map/map-model.ts'
import { mapSvg } from '../../charts-src/map/map-svg.ts'
import { renderMap } from '../../charts-src/map/render-map.ts'
import { anEnvironment, appsOf, ENVIRONMENTS, ROOT } from '../charts/fixture.ts'

const objectsOf = (name: (typeof ENVIRONMENTS)[number]): KubeObject[] =>
  appsOf(anEnvironment(name)).flatMap(({ objects }) => [...objects])
const modelOf = (name: (typeof ENVIRONMENTS)[number], objects = objectsOf(name)) =>
  mapModel(objects, anEnvironment(name))

describe('the map', () => {
  it('in the docs is what `npm run map` draws', () => {
    expect(readFileSync(join(ROOT, 'docs/map-prod.svg'), 'utf8')).toBe(renderMap(anEnvironment('prod')))
  })

  it.each(ENVIRONMENTS)('of %s tells every connection that is open, as an arrow or in words', (name) => {
    const model = modelOf(name)

    const svg = mapSvg(model)

    expect(svg.match(/class="line"/g)?.length).toBe(
      model.edges.filter(isDrawn).length +
        [...model.names.keys()].filter((id) => id === 'agent' || id === 'command').length,
    )
    const words = svg.replaceAll(/<[^>]+>/g, ' ').replaceAll(/\s+/g, ' ')
    for (const edge of model.edges.filter((one) => !isDrawn(one))) {
      expect(words).toContain(`${model.titles.get(edge.to)} at ${edge.ports.replaceAll(';', ' and')}`)
    }
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
    const between = (objects: KubeObject[]) =>
      modelOf('prod', objects).edges.filter(({ from, to }) => from === 'monitoring' && to === 'api')

    expect(between(objectsOf('prod')).map(({ ports }) => ports)).toEqual(['TCP 9090'])
    expect(between([...objectsOf('prod'), opened]).map(({ ports }) => ports)).toEqual(['TCP 5000, 9090'])
  })

  it('shows which pool serves which template, and the kind of its sandboxes', () => {
    const [agent, command] = modelOf('prod').pools

    expect(agent).toEqual({
      kind: 'agent',
      pool: 'agentweaver-agent, 9 warm',
      template: 'agentweaver-agent',
      runtimeClass: 'agentweaver-kata',
      account: 'agentweaver-agent-host',
      containers: ['agent-host: cpu 1, memory 512Mi', 'toolbox: cpu 1, memory 1536Mi'],
      tokens: ['agentweaver-api', 'api://AzureADTokenExchange'],
    })
    expect(command?.tokens).toEqual(['agentweaver-api'])
  })

  it('names whom no sandbox reaches', () => {
    const { closed } = modelOf('prod')

    for (const title of [
      'API',
      'API server',
      'database',
      'metadata service 169.254.169.254',
      'another node',
    ]) {
      expect(closed).toContain(title)
    }
    expect(closed).not.toContain('cluster DNS')
  })
})
