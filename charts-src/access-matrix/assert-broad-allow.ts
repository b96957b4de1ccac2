import { AGENT_HOST_PORT, EGRESS_CONTROL_PORT } from '../../contracts/ports.ts'
import { formatPorts, hasPorts, intersect, type PortSet, portSet } from '../../reachability/port-set.ts'
import { type Assertion, assertion, endpointsOf, proxyIds, SANDBOX_IDS } from './assertion.ts'
import { ENDPOINTS, type Endpoint, type EndpointId } from './endpoints.ts'
import { forbiddenTo } from './forbidden-addresses.ts'
import type { World } from './world.ts'

/** Forbidden to sandboxes and to the egress proxy. */
const NEVER: readonly EndpointId[] = [
  'agent',
  'command',
  'other agent',
  'other command',
  'stray sandbox',
  'api',
  'database setup',
  'api gateway',
  'preview gateway',
  'stray control plane',
  'own node',
  'other node',
  'api server',
  'unknown api server',
  'database',
  'metadata',
]

const NOT_CONTROL = portSet({
  TCP: [
    [1, EGRESS_CONTROL_PORT - 1],
    [EGRESS_CONTROL_PORT + 1, 65_535],
  ],
  UDP: [[1, 65_535]],
})

/** Connections that must stay closed even when another policy allows all traffic. */
export function broadAllowAssertions(world: World): Assertion[] {
  const { environment, opened } = world
  const judge = (title: string, found: PortSet) =>
    assertion('broad allow', title, hasPorts(found) ? `reaches ${formatPorts(found)}` : undefined)
  const closed = (from: Endpoint, to: Endpoint['end'], title: string) =>
    judge(title, opened.openPorts(from.end, to))
  const guarded = endpointsOf(world, [...SANDBOX_IDS, ...proxyIds(world)])
  const fromGuarded = guarded.flatMap((from) => [
    ...endpointsOf(world, NEVER)
      .filter(({ id }) => id !== from.id)
      .map((to) => {
        const title = `${from.title} still does not reach ${to.title}`
        if (from.id !== 'proxy' || to.id !== 'api') return closed(from, to.end, title)
        const found = intersect(opened.openPorts(from.end, to.end), NOT_CONTROL)
        return judge(`${title}, except at ${EGRESS_CONTROL_PORT}`, found)
      }),
    ...forbiddenTo(from.id, world).map(({ ip, what }) =>
      closed(from, { kind: 'address', ip }, `${from.title} still does not reach ${ip}, ${what}`),
    ),
  ])
  const intoSandboxes = endpointsOf(world, [
    'internet',
    'stray sandbox',
    'other agent',
    'other command',
  ]).flatMap((from) =>
    endpointsOf(world, SANDBOX_IDS).map((to) =>
      closed(from, to.end, `${from.title} still does not reach ${to.title}`),
    ),
  )
  const setup: readonly EndpointId[] = environment.infra.azure?.databaseSetup ? ['database setup'] : []
  const toMetadata = endpointsOf(world, ['api', ...setup, 'api gateway', 'preview gateway']).flatMap((from) =>
    ['169.254.169.254', '168.63.129.16'].map((ip) =>
      closed(from, { kind: 'address', ip }, `${from.title} still does not reach ${ip}`),
    ),
  )
  return [...fromGuarded, ...intoSandboxes, ...toMetadata, ...previewControlPort(world)]
}

/** A preview Gateway must never reach AgentHost's control port, not even with such a policy. */
function previewControlPort(world: World): Assertion[] {
  const orders = portSet({ TCP: [[AGENT_HOST_PORT, AGENT_HOST_PORT]] })
  return endpointsOf(world, ['preview gateway']).flatMap((from) =>
    endpointsOf(world, SANDBOX_IDS).map((to) => {
      const found = intersect(world.opened.openPorts(from.end, to.end), orders)
      const title = `${ENDPOINTS['preview gateway']} still does not reach port ${AGENT_HOST_PORT} of ${to.title}`
      return assertion('broad allow', title, hasPorts(found) ? 'reaches it' : undefined)
    }),
  )
}
