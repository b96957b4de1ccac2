import { names, SandboxKind } from '../../contracts/names.ts'
import { type EgressPolicy, readEgressPolicy } from '../../policies/agent/egress/load.ts'
import { formatPorts, hasPorts } from '../../reachability/port-set.ts'
import { worldOf } from '../access-matrix/check-reachability.ts'
import { expectedNames, isOurs } from '../access-matrix/expectations.ts'
import { type Actor, type ActorId, IMPOSTORS } from '../access-matrix/stage.ts'
import type { World } from '../access-matrix/world.ts'
import { fieldAt, listAt, textAt } from '../checks/read-fields.ts'
import type { Environment } from '../environment/schema.ts'
import type { KubeObject } from '../kube-object.ts'

export interface MapEdge {
  readonly from: ActorId
  readonly to: ActorId
  readonly ports: string
}

/** A warm pool, its template, and the properties of its sandboxes. */
export interface MapPool {
  readonly kind: SandboxKind
  readonly pool: string
  readonly template: string
  readonly runtimeClass: string
  readonly account: string
  readonly containers: readonly string[]
  readonly tokens: readonly string[]
}

export interface MapModel {
  readonly environment: string
  readonly namespaces: { readonly controlPlane: string; readonly sandboxes: string }
  readonly titles: ReadonlyMap<ActorId, string>
  /**
   * Every allowed connection with at least one end in our namespaces. A connection that every external endpoint may
   * open is one edge from `internet`.
   */
  readonly edges: readonly MapEdge[]
  readonly pools: readonly MapPool[]
  /** External names that each endpoint may reach. */
  readonly names: ReadonlyMap<ActorId, readonly string[]>
  /** Endpoints that sandboxes of neither class can reach at any port. */
  readonly closed: readonly string[]
}

const SANDBOXES: readonly ActorId[] = ['agent', 'command']

/** Computes the content of the picture from the rendered objects. */
export function mapModel(
  objects: readonly KubeObject[],
  environment: Environment,
  policy: EgressPolicy = readEgressPolicy(),
): MapModel {
  const outcome = worldOf(objects, environment, policy)
  if (!outcome.ok)
    throw new Error(outcome.faults.map(({ policy, reason }) => `${policy}: ${reason}`).join('\n'))
  const { world } = outcome
  const actors = world.stage.actors.filter(isShown)
  return {
    environment: environment.name,
    namespaces: names(environment.slice).namespaces,
    titles: new Map(actors.map(({ id, title }) => [id, title])),
    edges: edgesOf(world, actors),
    pools: SandboxKind.options.flatMap((kind) => poolsOf(objects, kind)),
    names: namesOf(world, actors),
    closed: actors.filter((to) => isClosed(world, actors, to)).map(({ title }) => title),
  }
}

/**
 * Hides endpoints whose connections equal those of another one: the second sandbox of a class, and pods of other
 * namespaces that copy our labels.
 */
const isShown = ({ id }: Actor) =>
  !IMPOSTORS.includes(id) && !['other agent', 'other command', 'unknown api server'].includes(id)

function edgesOf(world: World, actors: readonly Actor[]): MapEdge[] {
  const edges = pairsOf(world, actors)
  const isPublic = ({ from, to, ports }: MapEdge) =>
    !isOurs(from) &&
    actors
      .filter(({ id }) => !isOurs(id) && id !== 'own node')
      .every(
        ({ id }) =>
          edges.some((edge) => edge.from === id && edge.to === to && edge.ports === ports) || !canAsk(id),
      )
  return edges.filter((edge) => edge.from === 'internet' || !isPublic(edge))
}

/** Whether an endpoint opens connections. */
const canAsk = (id: ActorId) => !['database', 'metadata', 'dns'].includes(id)

function pairsOf({ evaluator }: World, actors: readonly Actor[]): MapEdge[] {
  return actors.flatMap((from) =>
    actors
      .filter((to) => to.id !== from.id && (isOurs(from.id) || isOurs(to.id)))
      .map((to) => ({ from: from.id, to: to.id, open: evaluator.openPorts(from.end, to.end) }))
      .filter(({ open }) => hasPorts(open))
      .map(({ open, ...ends }) => ({ ...ends, ports: formatPorts(open) })),
  )
}

function isClosed({ evaluator }: World, actors: readonly Actor[], to: Actor): boolean {
  return actors
    .filter(({ id }) => SANDBOXES.includes(id) && id !== to.id)
    .every((from) => !hasPorts(evaluator.openPorts(from.end, to.end)))
}

function namesOf({ environment, egress, evaluator }: World, actors: readonly Actor[]) {
  const reached = (actor: Actor) =>
    [...expectedNames(environment, egress, actor.id)].flatMap(([name, ports]) =>
      ports
        .filter((port) => {
          const to = { kind: 'name', name } as const
          return evaluator.evaluate({ from: actor.end, to, protocol: 'TCP', port }).allowed
        })
        .map((port) => `${name}:${port}`),
    )
  const entries = actors
    .filter(({ id }) => isOurs(id) && !id.startsWith('other '))
    .map((actor) => [actor.id, reached(actor)] as const)
  return new Map(entries.filter(([, names]) => names.length > 0))
}

function poolsOf(objects: readonly KubeObject[], kind: SandboxKind): MapPool[] {
  const ofKind = (wanted: string) => objects.filter((object) => object.kind === wanted)
  return ofKind('SandboxWarmPool')
    .filter(({ metadata }) => metadata.name.endsWith(`-${kind}`))
    .map((pool) => {
      const template = textAt(pool, 'spec', 'sandboxTemplateRef', 'name') ?? '?'
      const found = ofKind('SandboxTemplate').find(({ metadata }) => metadata.name === template)
      const spec = fieldAt(found, 'spec', 'podTemplate', 'spec')
      const replicas = fieldAt(pool, 'spec', 'replicas')
      return {
        kind,
        pool: `${pool.metadata.name}, ${typeof replicas === 'number' ? `${replicas} warm` : 'size of an autoscaler'}`,
        template,
        runtimeClass: textAt(spec, 'runtimeClassName') ?? 'none: no isolation',
        account: textAt(spec, 'serviceAccountName') ?? '?',
        containers: listAt(spec, 'containers').map(containerLine),
        tokens: listAt(spec, 'volumes')
          .flatMap((volume) => listAt(volume, 'projected', 'sources'))
          .map((source) => textAt(source, 'serviceAccountToken', 'audience') ?? '?'),
      }
    })
}

function containerLine(container: unknown): string {
  const limit = (name: string) => textAt(container, 'resources', 'limits', name) ?? '?'
  return `${textAt(container, 'name')}: cpu ${limit('cpu')}, memory ${limit('memory')}`
}
