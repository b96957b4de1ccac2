import { AGENT_HOST_PORT } from '../../contracts/ports.ts'
import { formatPorts, hasPorts, intersect, portSet } from '../../reachability/port-set.ts'
import { type Assertion, assertion, endpointsOf, SANDBOX_IDS } from './assertion.ts'
import { ENDPOINTS, type Endpoint, type EndpointId } from './endpoints.ts'
import { forbiddenAddresses } from './forbidden-addresses.ts'
import type { World } from './world.ts'

const NEVER_FROM_SANDBOX: readonly EndpointId[] = [
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

/** Connections that must stay closed even when another policy allows all traffic. */
export function broadAllowAssertions(world: World): Assertion[] {
  const { environment, opened } = world
  const closed = (from: Endpoint, to: Endpoint['end'], title: string) => {
    const found = opened.openPorts(from.end, to)
    return assertion('broad allow', title, hasPorts(found) ? `reaches ${formatPorts(found)}` : undefined)
  }
  const guarded = endpointsOf(
    world,
    environment.egress.mode === 'proxy' ? [...SANDBOX_IDS, 'proxy'] : SANDBOX_IDS,
  )
  const fromSandboxes = guarded.flatMap((from) => [
    ...endpointsOf(world, NEVER_FROM_SANDBOX).map((to) =>
      closed(from, to.end, `${from.title} still does not reach ${to.title}`),
    ),
    ...forbiddenAddresses(environment).map(({ ip, what }) =>
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
  return [...fromSandboxes, ...intoSandboxes, ...toMetadata, ...previewControlPort(world)]
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
