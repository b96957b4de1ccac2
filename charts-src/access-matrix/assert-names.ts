import { formatPorts, hasPorts } from '../../reachability/port-set.ts'
import { type Assertion, assertion, endpointsOf, proxyIds, SANDBOX_IDS } from './assertion.ts'
import { expectedNames, isOurs } from './expectations.ts'
import { forbiddenTo } from './forbidden-addresses.ts'
import { unlistedNames } from './unlisted-names.ts'
import type { World } from './world.ts'

/** An external address that no pod of a slice may reach. */
const LEARNED = '203.0.113.8'
const ANY_NAME = 'anything.example.com'

/** A pod can look up and connect to the names in its list, and to no other name. */
export function nameAssertions(world: World): Assertion[] {
  const { environment, egress, evaluator, topology } = world
  const anyName = proxyIds(world)
  const sources = topology.endpoints.filter(
    ({ id, end }) => isOurs(id) && end.kind === 'pod' && !anyName.includes(id),
  )
  return [
    ...proxyNames(world),
    ...sources.flatMap((from) => {
      const listed = expectedNames(environment, egress, from.id)
      const unlisted = unlistedNames(world, from.id).filter((name) => !listed.has(name))
      const asks = (name: string, port: number) =>
        evaluator.evaluate({ from: from.end, to: { kind: 'name', name }, protocol: 'TCP', port })
      const looked = [...listed.keys()].map((name) => {
        const answer = asks(name, 443)
        return assertion(
          'name',
          `${from.title} looks up ${name}`,
          answer.lookup?.allowed ? undefined : answer.why,
        )
      })
      const connected = [...listed].flatMap(([name, ports]) =>
        [80, 443, ...ports].map((port) => {
          const answer = asks(name, port)
          const isMeant = ports.includes(port)
          const title = `${from.title} ${isMeant ? 'connects' : 'does not connect'} to ${name}:${port}`
          return assertion('name', title, answer.allowed === isMeant ? undefined : answer.why)
        }),
      )
      const refused = unlisted.map((name) => {
        const answer = asks(name, 443)
        const isRefused = answer.lookup?.allowed === false && !answer.allowed
        return assertion(
          'name',
          `${from.title} may not even look up ${name}`,
          isRefused ? undefined : answer.why,
        )
      })
      const learned = unlisted.map((name) => {
        const found = evaluator.openPorts(from.end, { kind: 'address', ip: LEARNED, learnedNames: [name] })
        const title = `${from.title} does not connect to an address that another pod of the node resolved from ${name}`
        return assertion('name', title, hasPorts(found) ? `reaches ${formatPorts(found)}` : undefined)
      })
      return [...looked, ...connected, ...refused, ...learned]
    }),
  ]
}

/** The policies let the proxy reach any name: it judges names itself, by the newest list that the API sent. */
function proxyNames(world: World): Assertion[] {
  return endpointsOf(world, proxyIds(world)).flatMap((from) =>
    [80, 443, 8443, 53, 853].map((port) => {
      const to = { kind: 'name', name: ANY_NAME } as const
      const answer = world.evaluator.evaluate({ from: from.end, to, protocol: 'TCP', port })
      const isMeant = port !== 53 && port !== 853
      const title = `${from.title} ${isMeant ? 'connects' : 'does not connect'} to any name at ${port}`
      return assertion('name', title, answer.allowed === isMeant ? undefined : answer.why)
    }),
  )
}

/** A sandbox must never resolve names of the control plane. An egress list that contains one is an error. */
export function forbiddenNames(world: World): Assertion[] {
  const { azure, database, dns, registry } = world.environment.infra
  const names = [
    ...(azure ? [azure.vaults.controlPlane.host] : []),
    database.host,
    `api.${dns.zone}`,
    registry.host,
  ]
  return endpointsOf(world, SANDBOX_IDS).flatMap((from) =>
    names.map((name) => {
      const { allowed, lookup } = world.evaluator.evaluate({
        from: from.end,
        to: { kind: 'name', name },
        protocol: 'TCP',
        port: 443,
      })
      const title = `${from.title} never reaches ${name}`
      return assertion('name', title, allowed || lookup?.allowed ? 'the name is listed for it' : undefined)
    }),
  )
}

/** DNS rebinding: the owner of a listed name can return any address for it. */
export function rebinding(world: World): Assertion[] {
  const { environment, egress, evaluator } = world
  const anyName = proxyIds(world)
  return endpointsOf(world, [...SANDBOX_IDS, ...anyName]).flatMap((from) => {
    const [listed] = anyName.includes(from.id)
      ? [[ANY_NAME, [443]] as const]
      : expectedNames(environment, egress, from.id)
    if (listed === undefined) return []
    const [name, [port = 443]] = listed
    return forbiddenTo(from.id, world).map(({ ip, what }) => {
      const answer = evaluator.evaluate({
        from: from.end,
        to: { kind: 'name', name, ip },
        protocol: 'TCP',
        port,
      })
      const title = `${from.title} does not connect to ${name} at ${ip}, ${what}`
      return assertion('rebinding', title, answer.allowed ? answer.why : undefined)
    })
  })
}
