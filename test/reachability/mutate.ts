import type { KubeObject } from '../../charts-src/kube-object.ts'
import { isPolicy } from '../../reachability/compile-policies.ts'
import { titleOf } from '../../reachability/policy-context.ts'

/** One change to the policies that a developer could make by mistake. */
export interface Mutant {
  /** `NetworkPolicy agentweaver/api-ingress: delete spec.ingress[1]` */
  readonly title: string
  readonly kind: 'deleted' | 'widened' | 're-targeted'
  readonly objects: readonly KubeObject[]
}

type Json = string | number | boolean | null | undefined | readonly Json[] | { readonly [key: string]: Json }
type Path = readonly (string | number)[]

/** Lists whose entries are rules, or parts of rules that let in or keep out by themselves. */
const LISTS = [
  'ingress',
  'egress',
  'ingressDeny',
  'egressDeny',
  'from',
  'to',
  'ports',
  'policyTypes',
  'fromEndpoints',
  'fromEntities',
  'fromCIDRSet',
  'toEndpoints',
  'toEntities',
  'toCIDRSet',
  'except',
  'toFQDNs',
  'toPorts',
  'dns',
  'values',
]

/** An existing class, name or label. A rule that is redirected to it must fail an assertion. */
const OTHER_NAMESPACE = 'other-namespace'

/**
 * Every single change of one place in one policy: a policy or a rule or a part of it deleted, a selector or a port or
 * a name widened, a peer redirected to another endpoint.
 */
export function* mutants(objects: readonly KubeObject[]): Generator<Mutant> {
  for (const [index, object] of objects.entries()) {
    if (!isPolicy(object)) continue
    const title = titleOf(object)
    yield { title: `${title}: delete`, kind: 'deleted', objects: objects.toSpliced(index, 1) }
    for (const change of changesOf(object['spec'] as Json, ['spec'])) {
      const spec = applied(object['spec'] as Json, change.path.slice(1), change.to)
      yield {
        title: `${title}: ${change.what} ${pathText(change.path)}`,
        kind: change.kind,
        objects: objects.with(index, { ...object, spec }),
      }
    }
  }
}

interface Change {
  readonly kind: Mutant['kind']
  readonly what: string
  readonly path: Path
  /** `undefined` takes the key away. */
  readonly to: Json
}

function* changesOf(value: Json, path: Path): Generator<Change> {
  if (isList(value)) {
    if (LISTS.includes(String(path.at(-1)))) yield* deletions(value, path)
    for (const [index, entry] of value.entries()) yield* changesOf(entry, [...path, index])
    return
  }
  if (isRecord(value)) {
    yield* widenings(value, path)
    yield* retargetings(value, path)
    for (const [key, entry] of Object.entries(value)) yield* changesOf(entry, [...path, key])
  }
}

function* deletions(list: readonly Json[], path: Path): Generator<Change> {
  for (const index of list.keys()) {
    yield { kind: 'deleted', what: `delete entry ${index} of`, path, to: list.toSpliced(index, 1) }
  }
}

type Fields = Readonly<Record<string, Json>>
const at = (path: Path, ...keys: Path): Path => [...path, ...keys]

function widenings(value: Fields, path: Path): Change[] {
  const widened = (what: string, where: Path, to: Json): Change => ({
    kind: 'widened',
    what,
    path: where,
    to,
  })
  const droppable = isTop(path)
    ? ['matchLabels', 'matchExpressions']
    : [
        'from',
        'to',
        'ports',
        'toPorts',
        'rules',
        'podSelector',
        'namespaceSelector',
        'matchLabels',
        'matchExpressions',
      ]
  const dropped = droppable
    .filter((key) => value[key] !== undefined)
    .map((key) => widened('drop', at(path, key), undefined))
  const isName = value['matchName'] !== undefined || value['matchPattern'] !== undefined
  const isRange = typeof value['cidr'] === 'string' && !isDeny(path)
  return [
    ...dropped,
    ...widerPorts(value, path).map((to) => widened('more ports at', path, to)),
    ...(isName ? [widened('any name at', path, { matchPattern: '*' })] : []),
    ...(isRange ? [widened('any address at', path, { cidr: '0.0.0.0/0' })] : []),
    ...(isRecord(value['endpointSelector'])
      ? [widened('every pod at', at(path, 'endpointSelector'), {})]
      : []),
  ]
}

/** One port more at each end of a range, or every port instead of one. */
function widerPorts(value: Fields, path: Path): Json[] {
  const { port, endPort } = value
  if (typeof port === 'number')
    return [
      { ...value, port: port - 1, endPort: endPort ?? port },
      { ...value, endPort: Number(endPort ?? port) + 1 },
    ]
  return typeof port === 'string' && /^\d+$/.test(port) && !isDeny(path) ? [{ ...value, port: '0' }] : []
}

function retargetings(value: Fields, path: Path): Change[] {
  const turned = (where: Path, to: Json): Change => ({
    kind: 're-targeted',
    what: `set ${JSON.stringify(to)} at`,
    path: where,
    to,
  })
  const labels = isRecord(value['matchLabels']) ? Object.keys(value['matchLabels']) : []
  const entities = ['toEntities', 'fromEntities'].flatMap((key) => {
    const list = value[key]
    return isList(list) ? list.map((_one, index) => turned(at(path, key, index), 'health')) : []
  })
  return [
    ...labels.map((key) =>
      turned(
        at(path, 'matchLabels', key),
        /namespace|metadata\.name/.test(key) ? OTHER_NAMESPACE : 'something-else',
      ),
    ),
    ...otherValues(value).map(([key, to]) => turned(at(path, key), to)),
    ...entities,
  ]
}

function otherValues(value: Fields): [string, Json][] {
  const { port, matchName, cidr } = value
  const turned: [string, Json | undefined][] = [
    ['port', typeof port === 'number' ? (port > 1024 ? 22 : 1022) : undefined],
    ['port', port === '53' ? '5353' : undefined],
    ['matchName', typeof matchName === 'string' ? 'evil.example.com' : undefined],
    ['cidr', typeof cidr === 'string' ? '203.0.113.0/24' : undefined],
  ]
  return turned.filter(([, to]) => to !== undefined)
}

const isTop = (path: Path) => path.length === 1
const isDeny = (path: Path) => path.some((part) => String(part).endsWith('Deny'))

function applied(value: Json, path: Path, to: Json): Json {
  const [key, ...rest] = path
  if (key === undefined) return to
  if (isList(value)) return value.with(Number(key), applied(value[Number(key)], rest, to))
  if (!isRecord(value)) return to
  const next = applied(value[String(key)], rest, to)
  if (next !== undefined) return { ...value, [String(key)]: next }
  return Object.fromEntries(Object.entries(value).filter(([name]) => name !== String(key)))
}

const isList = (value: Json): value is readonly Json[] => Array.isArray(value)
const isRecord = (value: Json): value is Readonly<Record<string, Json>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const pathText = (path: Path): string =>
  path
    .map((part, index) => (typeof part === 'number' ? `[${part}]` : `${index === 0 ? '' : '.'}${part}`))
    .join('')
