import { names, SandboxKind } from '../../contracts/names.ts'
import { formatPorts, hasPorts } from '../../reachability/port-set.ts'
import { fieldAt, listAt, textAt } from '../checks/read-fields.ts'
import type { KubeObject } from '../kube-object.ts'
import { proxyIds } from './assertion.ts'
import { type Endpoint, type EndpointId, LABEL_COPIES } from './endpoints.ts'
import { expectedNames, isOurs } from './expectations.ts'
import type { World } from './world.ts'

const CONTROL_PLANE = ['preview gateway', 'api gateway', 'api'] as const
const OUTSIDE = ['internet', 'monitoring', 'api server', 'database'] as const
const drawn = (world: World): readonly EndpointId[] => [
  ...OUTSIDE,
  ...CONTROL_PLANE,
  ...SandboxKind.options,
  ...proxyIds(world),
]

export interface DiagramEdge {
  readonly from: EndpointId
  readonly to: EndpointId
  readonly ports: string
}

/** A Mermaid flowchart: a node is an endpoint, an arrow is an allowed connection with its ports. */
export function diagram(world: World): string {
  const { controlPlane, sandboxes, egress } = names(world.environment.slice).namespaces
  const titles = new Map(world.topology.endpoints.map(({ id, title }) => [id, title]))
  const node = (id: EndpointId) => `${nodeId(id)}["${escapeLabel(titles.get(id) ?? id)}"]`
  const group = (id: string, namespace: string, members: readonly EndpointId[]) => [
    `subgraph ${id}["namespace ${escapeLabel(namespace)}"]`,
    ...members.map((member) => `  ${node(member)}`),
    'end',
  ]
  const lines = [
    ...OUTSIDE.map(node),
    ...group('control_plane', controlPlane, CONTROL_PLANE),
    ...group('sandboxes', sandboxes, SandboxKind.options),
    ...(proxyIds(world).length > 0 ? group('egress', egress, proxyIds(world)) : []),
    ...diagramEdges(world).map(
      ({ from, to, ports }) => `${nodeId(from)} -->|"${escapeLabel(ports)}"| ${nodeId(to)}`,
    ),
    ...nameLines(world),
  ]
  return ['```mermaid', 'flowchart LR', ...lines.map((line) => `  ${line}`), '```'].join('\n')
}

/** The connections in the diagram. A connection that every external endpoint may open is one edge from `internet`. */
export function diagramEdges(world: World): DiagramEdge[] {
  const { topology, evaluator } = world
  const ids = drawn(world)
  const shown = topology.endpoints.filter(isDistinct)
  const edges = shown.flatMap((from) =>
    shown
      .filter((to) => to.id !== from.id && (isOurs(from.id) || isOurs(to.id)))
      .map((to) => ({ from: from.id, to: to.id, open: evaluator.openPorts(from.end, to.end) }))
      .filter(({ open }) => hasPorts(open))
      .map(({ open, ...ends }) => ({ ...ends, ports: formatPorts(open) })),
  )
  const isPublic = ({ from, to, ports }: DiagramEdge) =>
    !isOurs(from) && edges.some((edge) => edge.from === 'internet' && edge.to === to && edge.ports === ports)
  return edges
    .filter(({ from, to }) => ids.includes(from) && ids.includes(to))
    .filter((edge) => edge.from === 'internet' || !isPublic(edge))
}

/** Omits endpoints that have the same connections as another one. */
const isDistinct = ({ id }: Endpoint) =>
  !LABEL_COPIES.includes(id) && !['other agent', 'other command', 'unknown api server'].includes(id)

function nameLines(world: World): string[] {
  const { environment, egress, topology, evaluator } = world
  const ids = drawn(world)
  const askers = topology.endpoints.filter(
    (from) =>
      ids.includes(from.id) &&
      [...expectedNames(environment, egress, from.id)].some(([name, ports]) =>
        ports.some(
          (port) =>
            evaluator.evaluate({ from: from.end, to: { kind: 'name', name }, protocol: 'TCP', port }).allowed,
        ),
      ),
  )
  if (askers.length === 0) return []
  return ['listed_names["names listed below"]', ...askers.map(({ id }) => `${nodeId(id)} --> listed_names`)]
}

const nodeId = (id: EndpointId) => id.replaceAll(' ', '_')

/** Mermaid renders labels as HTML. */
export const escapeLabel = (text: string) =>
  text.replaceAll(/[&"<>]/g, (character) => `#${character.charCodeAt(0)};`)

/** One row per warm pool: its template, and the properties of its sandboxes. */
export function poolRows(objects: readonly KubeObject[]): string[][] {
  return objects
    .filter(({ kind }) => kind === 'SandboxWarmPool')
    .map((pool) => {
      const template = textAt(pool, 'spec', 'sandboxTemplateRef', 'name') ?? '?'
      const found = objects.find(
        ({ kind, metadata }) => kind === 'SandboxTemplate' && metadata.name === template,
      )
      const spec = fieldAt(found, 'spec', 'podTemplate', 'spec')
      const replicas = fieldAt(pool, 'spec', 'replicas')
      const tokens = listAt(spec, 'volumes')
        .flatMap((volume) => listAt(volume, 'projected', 'sources'))
        .map((source) => textAt(source, 'serviceAccountToken', 'audience') ?? '?')
      return [
        `\`${pool.metadata.name}\``,
        typeof replicas === 'number' ? String(replicas) : 'set by an autoscaler',
        `\`${template}\``,
        `\`${textAt(spec, 'runtimeClassName') ?? 'none: no isolation'}\``,
        `\`${textAt(spec, 'serviceAccountName') ?? '?'}\``,
        listAt(spec, 'containers').map(containerText).join('; '),
        tokens.map((audience) => `\`${audience}\``).join(', '),
      ]
    })
}

function containerText(container: unknown): string {
  const limit = (name: string) => textAt(container, 'resources', 'limits', name) ?? '?'
  return `${textAt(container, 'name')}: cpu ${limit('cpu')}, memory ${limit('memory')}`
}
