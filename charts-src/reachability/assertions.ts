import { CLASS_LABEL } from '../../contracts/labels.ts'
import { names, SandboxKind } from '../../contracts/names.ts'
import { AGENT_HOST_PORT } from '../../contracts/ports.ts'
import type { ResolvedEgress } from '../../policies/agent/egress/resolve.ts'
import type { Environment } from '../environment/schema.ts'
import type { KubeObject } from '../kube-object.ts'
import { rangesDeniedToSandboxes } from './denied-ranges.ts'
import { createEvaluator } from './evaluate.ts'
import { expectedNames, expectedPorts, isOurs, openings, SOURCES } from './expectations.ts'
import { forbiddenAddresses } from './forbidden-addresses.ts'
import type { Evaluator, PolicyFault } from './model.ts'
import { strangeNames } from './names-on-stage.ts'
import { formatPorts, hasPorts, intersect, portSet, samePorts } from './port-set.ts'
import { ACTORS, type Actor, type ActorId, type Stage } from './stage.ts'

/** What is held against the rendered policies, by the row of docs/network.md that asks for it. */
export interface Assertion {
  readonly row: AssertionRow
  /** A sentence that is true of a tree that is as it should be. */
  readonly title: string
  /** What is wrong, where it does not hold. */
  readonly failure?: string
}

export const ROWS = {
  pair: 'between two ends, exactly what the table lists is open',
  range: 'no sandbox reaches a metadata service, a private or shared range, or a range of the cluster',
  name: 'exactly the listed names are looked up and connected to, at the listed ports',
  rebinding: 'a listed name that resolves into a forbidden range is not connected to',
  'broad allow': 'one broad allow beside the policies opens nothing that must never be open',
  explicit: "the cluster's own ranges are denied by name",
} as const
export type AssertionRow = keyof typeof ROWS

export interface World {
  readonly environment: Environment
  readonly egress: ResolvedEgress
  readonly stage: Stage
  readonly objects: readonly KubeObject[]
  readonly evaluator: Evaluator
  /** The same policies beside one in each namespace that allows everything. */
  readonly opened: Evaluator
}

export type WorldOutcome =
  | { readonly ok: true; readonly world: World }
  | { readonly ok: false; readonly faults: readonly PolicyFault[] }

export function createWorld(
  objects: readonly KubeObject[],
  context: Pick<World, 'environment' | 'egress' | 'stage'>,
): WorldOutcome {
  const { environment, stage } = context
  const rendered = createEvaluator(objects, stage.facts)
  if (!rendered.ok) return rendered
  const opened = createEvaluator([...objects, ...broadAllows(environment)], stage.facts)
  if (!opened.ok) return opened
  return { ok: true, world: { ...context, objects, evaluator: rendered.evaluator, opened: opened.evaluator } }
}

/** The mistake of somebody in a hurry: a policy that allows everything, both ways, to every pod of a namespace. */
function broadAllows({ slice }: Environment): KubeObject[] {
  const { controlPlane, sandboxes, egress } = names(slice).namespaces
  return [controlPlane, sandboxes, egress].map((namespace) => ({
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name: 'in-a-hurry', namespace },
    spec: { podSelector: {}, policyTypes: ['Ingress', 'Egress'], ingress: [{}], egress: [{}] },
  }))
}

/** Every assertion, held or not. */
export function assertions(world: World): Assertion[] {
  return [
    ...pairs(world),
    ...ranges(world),
    ...namesOf(world),
    ...rebinding(world),
    ...hurried(world),
    ...explicit(world),
  ]
}

const assertion = (row: AssertionRow, title: string, failure: string | undefined): Assertion => ({
  row,
  title,
  ...(failure === undefined ? {} : { failure }),
})

function pairs({ environment, egress, stage, evaluator }: World): Assertion[] {
  const all = openings(environment, egress)
  const sources = stage.actors.filter(({ id }) => SOURCES.includes(id))
  return sources.flatMap((from) =>
    stage.actors
      .filter((to) => to.id !== from.id && (isOurs(from.id) || isOurs(to.id)))
      .map((to) => {
        const wanted = expectedPorts(all, from.id, to.id)
        const found = evaluator.openPorts(from.end, to.end)
        const title = `${from.title} → ${to.title}: ${formatPorts(wanted) || 'nothing'}`
        return assertion(
          'pair',
          title,
          samePorts(wanted, found) ? undefined : `is ${formatPorts(found) || 'closed'}`,
        )
      }),
  )
}

const SANDBOX_IDS: readonly ActorId[] = SandboxKind.options

const actorsOf = ({ stage }: World, ids: readonly ActorId[]): Actor[] =>
  stage.actors.filter(({ id }) => ids.includes(id))

function ranges(world: World): Assertion[] {
  return actorsOf(world, [...SANDBOX_IDS, 'stray sandbox']).flatMap((from) =>
    forbiddenAddresses(world.environment).map(({ ip, what }) => {
      const found = world.evaluator.openPorts(from.end, { kind: 'address', ip })
      const title = `${from.title} does not reach ${ip}, ${what}`
      return assertion('range', title, hasPorts(found) ? `reaches ${formatPorts(found)}` : undefined)
    }),
  )
}

function namesOf(world: World): Assertion[] {
  const { environment, egress, evaluator, stage } = world
  const sources = stage.actors.filter(({ id, end }) => isOurs(id) && end.kind === 'pod')
  return sources.flatMap((from) => {
    const listed = expectedNames(environment, egress, from.id)
    const strange = strangeNames(world, from.id).filter((name) => !listed.has(name))
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
    const refused = strange.map((name) => {
      const answer = asks(name, 443)
      const isRefused = answer.lookup?.allowed === false && !answer.allowed
      return assertion(
        'name',
        `${from.title} may not even look up ${name}`,
        isRefused ? undefined : answer.why,
      )
    })
    return [...looked, ...connected, ...refused]
  })
}

/** Whoever answers for a listed name can answer with any address. */
function rebinding(world: World): Assertion[] {
  const { environment, egress, evaluator } = world
  return actorsOf(world, [...SANDBOX_IDS, 'proxy']).flatMap((from) => {
    const [listed] = expectedNames(environment, egress, from.id)
    if (listed === undefined) return []
    const [name, [port = 443]] = listed
    return forbiddenAddresses(environment).map(({ ip, what }) => {
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

const NEVER_FROM_SANDBOX: readonly ActorId[] = [
  'other agent',
  'other command',
  'stray sandbox',
  'api',
  'api gateway',
  'preview gateway',
  'stray control plane',
  'own node',
  'other node',
  'api server',
  'database',
  'metadata',
]

function hurried(world: World): Assertion[] {
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
  const toMetadata = actorsOf(world, ['api', 'api gateway', 'preview gateway']).flatMap((from) =>
    ['169.254.169.254', '168.63.129.16'].map((ip) =>
      closed(from, { kind: 'address', ip }, `${from.title} still does not reach ${ip}`),
    ),
  )
  return [...fromSandboxes, ...intoSandboxes, ...toMetadata, ...ordersOfPreviews(world)]
}

/** A preview never gives a sandbox orders, not even then. */
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

function explicit({ environment, objects }: World): Assertion[] {
  const { network, apiServer, database } = environment.infra
  const wanted = [
    ...network.serviceCidrs,
    ...network.podCidrs,
    ...network.nodeCidrs,
    ...apiServer.cidrs,
    database.cidr,
  ]
  return SandboxKind.options.flatMap((kind) => {
    const denied = rangesDeniedToSandboxes(objects, { [CLASS_LABEL]: kind })
    return [...new Set(wanted)].map((cidr) =>
      assertion(
        'explicit',
        `${cidr} is denied by name to class ${kind}`,
        denied.has(cidr) ? undefined : 'no policy names it in egressDeny',
      ),
    )
  })
}
