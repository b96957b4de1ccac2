import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Properties, Recorded } from '../../policies/stack/recording.ts'
import { ROOT } from '../helpers/stack-file.ts'
import type { Workspace } from './workspace.ts'

export const RECORDING_PACK = join(ROOT, 'test/fakes/pulumi/recording-pack')

interface Shown {
  readonly urn: string
  readonly type: string
  readonly name: string
  readonly parent: string
  readonly protect: boolean
  readonly ignoreChanges: readonly string[]
  readonly properties: Properties
}
interface ShownAtEnd extends Shown {
  readonly dependencies: readonly string[]
  readonly origins: Readonly<Record<string, readonly string[]>>
}
type Line =
  | ({ readonly kind: 'analyze' } & Shown)
  | { readonly kind: 'analyzeStack'; readonly resources: readonly ShownAtEnd[] }

/** Returns the real engine's requests to a policy pack during one preview or update. Throws if the command fails. */
export async function recordRequests(space: Workspace, argv: readonly string[]): Promise<Recorded[]> {
  const file = join(space.root, 'requests.jsonl')
  rmSync(file, { force: true })
  const { done } = await space.start([...argv, '--policy-pack', RECORDING_PACK], { RECORD_FILE: file })
  const { status, text } = await done
  if (status !== 0) throw new Error(`pulumi ${argv.join(' ')} failed: ${text}`)
  const lines = readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Line)
  return rowsOf(lines)
}

function rowsOf(lines: readonly Line[]): Recorded[] {
  const before = new Map(
    lines.flatMap((line) => (line.kind === 'analyze' ? [[line.urn, line] as const] : [])),
  )
  const [end] = lines.flatMap((line) => (line.kind === 'analyzeStack' ? [line.resources] : []))
  if (end === undefined) throw new Error('the engine has not asked about the whole stack')
  return end.map((shown) => rowOf(before.get(shown.urn), shown)).toSorted((a, b) => (a.urn < b.urn ? -1 : 1))
}

/** Omits empty fields and sorts the keys, so that two recordings of the same run are identical. */
function rowOf(before: Shown | undefined, end: ShownAtEnd): Recorded {
  const row = {
    urn: end.urn,
    type: end.type,
    name: end.name,
    parent: end.parent,
    protect: end.protect,
    ignoreChanges: [...(before ?? end).ignoreChanges],
    ...(before && { inputs: shortened(end.type, before.properties) }),
    outputs: shortened(end.type, end.properties),
    dependencies: end.dependencies.toSorted(),
    origins: sorted(end.origins),
  }
  return Object.fromEntries(Object.entries(row).filter(([, value]) => !isEmpty(value))) as unknown as Recorded
}

const isEmpty = (value: unknown) =>
  value === '' ||
  value === false ||
  (typeof value === 'object' && value !== null && Object.keys(value).length === 0)

/**
 * Rules read only the type and the identity of Kubernetes objects. The CRDs of the controller alone are 300 kB large.
 */
function shortened(type: string, properties: Properties): Properties {
  const metadata = properties['metadata'] as Properties | undefined
  const isObject = type.startsWith('kubernetes:') && typeof metadata === 'object'
  if (!isObject) return sorted(withoutSecrets(properties) as Properties)
  const { apiVersion, kind } = properties
  const { name, namespace } = metadata
  return { apiVersion, kind, metadata: { name, ...(namespace !== undefined && { namespace }) } }
}

const SIGNATURE = '4dabf18193072939515e22adb298388d'

/** Keeps the secret markers and removes the values, which no rule needs. */
function withoutSecrets(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutSecrets)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value)
  if (SIGNATURE in value) return { ...value, value: 'a secret' }
  return Object.fromEntries(entries.map(([key, inner]) => [key, withoutSecrets(inner)]))
}

function sorted<T>(value: T): T {
  if (Array.isArray(value)) return value.map(sorted) as T
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(entries.map(([key, inner]) => [key, sorted(inner)])) as T
}
