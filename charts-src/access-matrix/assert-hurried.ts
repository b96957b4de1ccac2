import { AGENT_HOST_PORT } from '../../contracts/ports.ts'
import { formatPorts, hasPorts, intersect, portSet } from '../../reachability/port-set.ts'
import { type Assertion, actorsOf, assertion, SANDBOX_IDS } from './assertion.ts'
import { forbiddenAddresses } from './forbidden-addresses.ts'
import { ACTORS, type Actor, type ActorId } from './stage.ts'
import type { World } from './world.ts'

const NEVER_FROM_SANDBOX: readonly ActorId[] = [
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
export function hurried(world: World): Assertion[] {
  const { environment, opened } = world
  const closed = (from: Actor, to: Actor['end'], title: string) => {
    const found = opened.openPorts(from.end, to)
    return assertion('broad allow', title, hasPorts(found) ? `reaches ${formatPorts(found)}` : undefined)
  }
  const guarded = actorsOf(
    world,
    environment.egress.mode === 'proxy' ? [...SANDBOX_IDS, 'proxy'] : SANDBOX_IDS,
  )
  const fromSandboxes = guarded.flatMap((from) => [
    ...actorsOf(world, NEVER_FROM_SANDBOX).map((to) =>
      closed(from, to.end, `${from.title} still does not reach ${to.title}`),
    ),
    ...forbiddenAddresses(environment).map(({ ip, what }) =>
      closed(from, { kind: 'address', ip }, `${from.title} still does not reach ${ip}, ${what}`),
    ),
  ])
  const intoSandboxes = actorsOf(world, [
    'internet',
    'stray sandbox',
    'other agent',
    'other command',
  ]).flatMap((from) =>
    actorsOf(world, SANDBOX_IDS).map((to) =>
      closed(from, to.end, `${from.title} still does not reach ${to.title}`),
    ),
  )
  const setup: readonly ActorId[] = environment.infra.azure?.databaseSetup ? ['database setup'] : []
  const toMetadata = actorsOf(world, ['api', ...setup, 'api gateway', 'preview gateway']).flatMap((from) =>
    ['169.254.169.254', '168.63.129.16'].map((ip) =>
      closed(from, { kind: 'address', ip }, `${from.title} still does not reach ${ip}`),
    ),
  )
  return [...fromSandboxes, ...intoSandboxes, ...toMetadata, ...ordersOfPreviews(world)]
}

/** A preview Gateway must never reach AgentHost's control port, not even then. */
function ordersOfPreviews(world: World): Assertion[] {
  const orders = portSet({ TCP: [[AGENT_HOST_PORT, AGENT_HOST_PORT]] })
  return actorsOf(world, ['preview gateway']).flatMap((from) =>
    actorsOf(world, SANDBOX_IDS).map((to) => {
      const found = intersect(world.opened.openPorts(from.end, to.end), orders)
      const title = `${ACTORS['preview gateway']} still does not reach port ${AGENT_HOST_PORT} of ${to.title}`
      return assertion('broad allow', title, hasPorts(found) ? 'reaches it' : undefined)
    }),
  )
}
