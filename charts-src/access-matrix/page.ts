import { notWhole } from '../../policies/agent/egress/describe.ts'
import { type EgressPolicy, readEgressPolicy } from '../../policies/agent/egress/load.ts'
import type { Evaluator, Verdict } from '../../reachability/model.ts'
import { formatPorts, type PortSet } from '../../reachability/port-set.ts'
import type { Environment } from '../environment/schema.ts'
import type { KubeObject } from '../kube-object.ts'
import { type Assertion, type AssertionRow, ROWS } from './assertion.ts'
import { assertions } from './assertions.ts'
import { worldOf } from './check-reachability.ts'
import { diagram, poolRows } from './diagram.ts'
import { type Endpoint, type EndpointId, LABEL_COPIES } from './endpoints.ts'
import { expectedNames, isOurs, SOURCES } from './expectations.ts'
import type { World } from './world.ts'

/** Columns of the matrix with short titles. Actors without a column have the same rules as a listed one. */
const COLUMNS: readonly (readonly [EndpointId, string])[] = [
  ['agent', 'agent sandbox'],
  ['command', 'command sandbox'],
  ['stray sandbox', 'unlabelled in sandboxes'],
  ['api', 'API'],
  ['api gateway', 'API gateway'],
  ['preview gateway', 'preview gateway'],
  ['proxy', 'egress proxy'],
  ['dns', 'cluster DNS'],
  ['gateway controller', "gateways' controller"],
  ['elsewhere', 'pod of another namespace'],
  ['own node', 'own node'],
  ['other node', 'other node'],
  ['api server', 'API server'],
  ['database', 'database'],
  ['metadata', 'metadata'],
  ['internet', 'Internet'],
]

/** Renders `gitops/<env>/reachability.md`: the connections that the rendered policies allow, for review. */
export function reachabilityPage(
  objects: readonly KubeObject[],
  environment: Environment,
  policy: EgressPolicy = readEgressPolicy(),
): string {
  const outcome = worldOf(objects, environment, policy)
  if (!outcome.ok) {
    const faults = outcome.faults.map(
      ({ policy, path, kind, reason }) => `- ${policy}, ${path}: ${kind}: ${reason}`,
    )
    return `# Permitted connections: ${environment.name}\n\nNot computed:\n\n${faults.join('\n')}\n`
  }
  const { world } = outcome
  const sections = [
    heading(environment),
    overview(world),
    pools(objects),
    matrix(world),
    nameTable(world),
    notHere(world),
    reasons(world),
    held([...assertions(world)]),
  ]
  return `${sections.join('\n\n')}\n`
}

const heading = ({ name, egress, isolation }: Environment) => `# Permitted connections: ${name}

Computed by \`reachability/\` from the NetworkPolicies and CiliumNetworkPolicies of this tree.
\`npm run synth\` renders this page and \`npm run synth:check\` compares it. Egress mode \`${egress.mode}\`, isolation
\`${isolation}\`. A dot means: closed at every port and protocol. More: docs/network.md.`

const overview = (world: World) => `## Diagram

An arrow is an allowed connection with its ports. Connections without an arrow are in the table below, or closed. The
node of a pod reaches it at every port, because Cilium always permits the kubelet's probes.

${diagram(world)}`

const pools = (objects: readonly KubeObject[]) => `## Pools

${table(['pool', 'warm sandboxes', 'template', 'runtime class', 'account', 'containers', 'tokens for'], poolRows(objects))}`

function matrix({ topology, evaluator }: World): string {
  const rows = sourcesOf(topology.endpoints).map((from) => [
    from.title,
    ...COLUMNS.map(([id]) => {
      const to = topology.endpoints.find((endpoint) => endpoint.id === id)
      if (to === undefined || to.id === from.id) return ''
      if (!isOurs(from.id) && !isOurs(to.id)) return ''
      return cell(evaluator.openPorts(from.end, to.end))
    }),
  ])
  return `## Between endpoints

Rows connect to columns. A cell is empty for a pod and itself, and for two endpoints outside our namespaces. A second
sandbox of a class has the same row as the first. A pod of another namespace has the same row with and without our
labels.

${table(['from', ...COLUMNS.map(([, title]) => title)], rows)}`
}

const cell = (ports: PortSet) => formatPorts(ports) || '·'

function nameTable(world: World): string {
  const sources = world.topology.endpoints.filter(({ id }) => isOurs(id) && !id.startsWith('other '))
  const lookingUp = sources.filter((from) => listed(world, from).length > 0)
  const hosts = [...new Set(lookingUp.flatMap((from) => listed(world, from)))].sort()
  if (hosts.length === 0) return '## By name\n\nNo pod looks up or reaches an external name.'
  const rows = [...hosts, 'any other name'].map((host) => [
    host === 'any other name' ? host : `\`${host}\``,
    ...lookingUp.map((from) =>
      nameCell(world, from, host === 'any other name' ? 'not-listed.example.com' : host),
    ),
  ])
  return `## By name

Names that a pod may look up at the cluster's resolver, and the ports at which it may then connect. "lookup" alone:
another rule allows the address, or none does.

${table(['name', ...lookingUp.map(({ title }) => title)], rows)}`
}

const listed = ({ environment, egress }: World, { id }: Endpoint) => [
  ...expectedNames(environment, egress, id).keys(),
]

/** Shows the ports that at least one destination uses. The assertions cover the other ports. */
function nameCell({ environment, egress, evaluator }: World, from: Endpoint, name: string): string {
  const ask = (port: number) =>
    evaluator.evaluate({ from: from.end, to: { kind: 'name', name }, protocol: 'TCP', port })
  if (!ask(443).lookup?.allowed) return '·'
  const ports = new Set([443, ...[...expectedNames(environment, egress, from.id).values()].flat()])
  const open = [...ports].filter((port) => ask(port).allowed).sort((a, b) => a - b)
  return open.length === 0 ? 'lookup' : `TCP ${open.join(', ')}`
}

/** Lists destinations of policies/agent/egress.yaml that this environment omits or changes. */
function notHere({ environment, egress }: World): string {
  const { mode } = environment.egress
  if (mode === 'closed')
    return '## Omitted destinations\n\nEvery destination of policies/agent/egress.yaml: the environment is closed.'
  const absent = egress.absent.map(({ kind, placeholder }) => [
    kind,
    placeholder,
    'the environment has no such name',
  ])
  const lost = notWhole(egress.classes, mode).map(({ kind, host, text }) => [kind, `\`${host}\``, text])
  const rows = [...absent, ...lost]
  if (rows.length === 0)
    return '## Omitted destinations\n\nNo destination of policies/agent/egress.yaml is omitted.'
  return `## Omitted destinations

Destinations of policies/agent/egress.yaml that have no name in this environment, or whose limits a rule by name and port
cannot express.

${table(['class', 'destination', 'in'], rows)}`
}

/**
 * Names the rule that opens each pair, so that a reviewer knows what to read. Sources with equal rules share
 * a line.
 */
function reasons({ topology, evaluator }: World): string {
  const pairs = sourcesOf(topology.endpoints).flatMap((from) =>
    topology.endpoints
      .filter((to) => to.id !== from.id && !isDouble(to) && (isOurs(from.id) || isOurs(to.id)))
      .map((to) => ({ from, to, ports: evaluator.openPorts(from.end, to.end) })),
  )
  const rows = pairs.flatMap((pair) => {
    const row = reason(pair, evaluator)
    return row === undefined ? [] : [{ from: pair.from.title, row }]
  })
  const alike = [...Map.groupBy(rows, ({ row }) => row.join(' | ')).values()]
  const lines = alike.map((group) => [group.map(({ from }) => from).join(', '), ...(group[0]?.row ?? [])])
  return `## By rule

${table(['from', 'to', 'ports', 'leaving', 'entering'], lines)}`
}

/** A second sandbox of a class exists only as a target for the first. Its own row would be identical. */
const isDouble = ({ id }: Endpoint) => id.startsWith('other ') && id !== 'other node'

const sourcesOf = (endpoints: readonly Endpoint[]) =>
  endpoints.filter(
    (endpoint) => SOURCES.includes(endpoint.id) && !isDouble(endpoint) && !LABEL_COPIES.includes(endpoint.id),
  )

interface Pair {
  readonly from: Endpoint
  readonly to: Endpoint
  readonly ports: PortSet
}

function reason({ from, to, ports }: Pair, evaluator: Evaluator): string[] | undefined {
  const [protocol, [range]] = Object.entries(ports).find(([, ranges]) => ranges.length > 0) ?? [undefined, []]
  if (protocol === undefined || range === undefined) return undefined
  const { egress, ingress } = evaluator.evaluate({
    from: from.end,
    to: to.end,
    protocol: protocol as keyof PortSet,
    port: range[0],
  })
  const text = ({ because, rule }: Verdict) =>
    rule === undefined ? because : `\`${rule.policy.replace(/^\S+ /, '')}\` ${rule.path}`
  return [to.title, formatPorts(ports), text(egress), text(ingress)]
}

function held(all: readonly Assertion[]): string {
  const rows = (Object.keys(ROWS) as AssertionRow[]).map((row) => {
    const ofRow = all.filter((one) => one.row === row)
    const broken = ofRow.filter(({ failure }) => failure !== undefined)
    return [ROWS[row], String(ofRow.length), String(broken.length)]
  })
  return `## Assertions

${table(['assertion', 'checked', 'failed'], rows)}`
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')
}
