import { parseRange } from '../../reachability/address.ts'
import { includesRange, rangesDeniedTo } from '../../reachability/denied-ranges.ts'
import type { End, Evaluator, PodFacts } from '../../reachability/model.ts'
import { formatPorts, hasPorts, type PortSet, samePorts } from '../../reachability/port-set.ts'
import { broadAllowAssertions } from './assert-broad-allow.ts'
import { forbiddenNames, nameAssertions, rebinding } from './assert-names.ts'
import {
  type Assertion,
  type AssertionRow,
  assertion,
  endpointsOf,
  proxyIds,
  SANDBOX_IDS,
} from './assertion.ts'
import { expectedOnSide, isOurs, ONLY_DENIED, openings, type Side, SOURCES } from './expectations.ts'
import { forbiddenTo } from './forbidden-addresses.ts'
import type { World } from './world.ts'

const GROUPS: readonly ((world: World) => Iterable<Assertion>)[] = [
  (world) => pairs(world, 'pair', world.evaluator),
  (world) => pairs(world, 'without deny rules', world.bare),
  explicit,
  ranges,
  broadAllowAssertions,
  rebinding,
  forbiddenNames,
  nameAssertions,
]

/** Returns every assertion, whether it holds or not. A caller that checks many trees stops at the first failure. */
export function* assertions(world: World): Generator<Assertion> {
  for (const group of GROUPS) yield* group(world)
}

/**
 * Checks egress and ingress separately. A connection that only one side blocks opens as soon as that side has
 * a mistake.
 */
function* pairs(
  { environment, egress, topology }: World,
  row: AssertionRow,
  evaluator: Evaluator,
): Generator<Assertion> {
  const all = [...openings(environment, egress), ...openWithout(row, environment)]
  for (const from of topology.endpoints.filter(({ id }) => SOURCES.includes(id))) {
    const targets = topology.endpoints.filter(({ id }) => id !== from.id && (isOurs(from.id) || isOurs(id)))
    for (const to of targets) {
      const found = evaluator.openSides(from.end, to.end)
      const judge = (side: Side, ports: PortSet) => {
        const wanted = expectedOnSide(all, { from: from.id, to: to.id }, side)
        const title = `${from.title} → ${to.title}, ${side}: ${formatPorts(wanted) || 'nothing'}`
        const failure = samePorts(wanted, ports) ? undefined : `is ${formatPorts(ports) || 'closed'}`
        return assertion(row, title, failure)
      }
      if (isOurs(from.id)) yield judge('leaving', found.egress)
      if (isOurs(to.id)) yield judge('entering', found.ingress)
    }
  }
}

const openWithout = (row: AssertionRow, { egress }: World['environment']) =>
  row === 'without deny rules' && egress.mode === 'proxy' ? ONLY_DENIED : []

function ranges(world: World): Assertion[] {
  // Sandboxes reach no address at all without a name. The proxy reaches the internet, so each range must be left out there.
  const judges = [
    { ids: [...SANDBOX_IDS, 'stray sandbox', ...proxyIds(world)] as const, by: world.evaluator, how: '' },
    { ids: proxyIds(world), by: world.bare, how: ' without deny rules' },
  ]
  return judges.flatMap(({ ids, by, how }) =>
    endpointsOf(world, ids).flatMap((from) =>
      forbiddenTo(from.id, world).map(({ ip, what }) => {
        const found = by.openPorts(from.end, { kind: 'address', ip })
        const title = `${from.title} does not reach ${ip}, ${what}${how}`
        return assertion('range', title, hasPorts(found) ? `reaches ${formatPorts(found)}` : undefined)
      }),
    ),
  )
}

function explicit(world: World): Assertion[] {
  const { objects, topology } = world
  const { network, apiServer, database } = world.environment.infra
  const wanted = [
    ...network.serviceCidrs,
    ...network.podCidrs,
    ...network.nodeCidrs,
    ...apiServer.cidrs,
    database.cidr,
  ]
  const guarded = endpointsOf(world, [...SANDBOX_IDS, ...proxyIds(world)])
  return guarded.flatMap(({ title, end }) => {
    const pod = topology.facts.pods.find((one) => isPod(one, end))
    const denied = pod === undefined ? [] : rangesDeniedTo(objects, topology.facts, pod)
    return [...new Set(wanted)].map((cidr) => {
      const range = parseRange(cidr)
      const isDenied = range !== undefined && includesRange(denied, range)
      return assertion(
        'explicit',
        `${cidr} is in a deny rule of the ${title}`,
        isDenied ? undefined : 'no policy names it in egressDeny',
      )
    })
  })
}

const isPod = ({ namespace, name }: PodFacts, end: End): boolean =>
  end.kind === 'pod' && end.namespace === namespace && end.name === name
