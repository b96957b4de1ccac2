import type { Plan, PlannedResource, PlannedValue } from '../../contracts/planned-resource.ts'
import { refusesChange, replacesResource } from '../../infra/model/force-new.ts'

export interface PlannedChange {
  readonly action: 'create' | 'update' | 'replace' | 'delete' | 'unprotect'
  readonly urn: string
  readonly type: string
  readonly name: string
  /** Whether the committed plan protects it. */
  readonly protect: boolean
  /** Paths of inputs that differ, sorted; empty for a resource that is added or removed. */
  readonly paths: readonly string[]
  /** Changed inputs that cannot change in place. */
  readonly replacing: readonly string[]
}

/** What stands between two plans, by URN. Components only group, so they are left out. */
export function comparePlans(previous: Plan, next: Plan): PlannedChange[] {
  const before = new Map(previous.resources.map((one) => [one.urn, one]))
  const after = new Map(next.resources.map((one) => [one.urn, one]))
  const gone = previous.resources.filter(({ urn, custom }) => custom && !after.has(urn))
  const there = next.resources.filter(({ custom }) => custom)
  return [
    ...gone.map((one) => change('delete', one)),
    ...there.flatMap((one) => {
      const old = before.get(one.urn)
      return old === undefined ? [change('create', one)] : compareResource(old, one)
    }),
  ]
}

/** Changes that would destroy protected resources: one sentence each, which begins with the name. */
export function destroyed(changes: readonly PlannedChange[]): string[] {
  return changes
    .filter(({ action, protect }) => protect && (action === 'delete' || action === 'replace'))
    .map(({ action, name, type, replacing }) =>
      action === 'delete'
        ? `${name} (${type}) is protected and would be deleted`
        : `${name} (${type}) is protected and would be replaced: ${replacing.join(', ')} cannot change in place`,
    )
}

function change(
  action: PlannedChange['action'],
  { urn, type, name, protect }: PlannedResource,
  { paths = [], replacing = [] }: Partial<Pick<PlannedChange, 'paths' | 'replacing'>> = {},
): PlannedChange {
  return { action, urn, type, name, protect, paths, replacing }
}

function compareResource(old: PlannedResource, now: PlannedResource): PlannedChange[] {
  const paths = differences(old.inputs, now.inputs, '')
    .filter((path) => !isIgnored(path, now.ignoreChanges))
    .sort()
  if (paths.length === 0) return old.protect && !now.protect ? [change('unprotect', old)] : []
  const names = Object.keys(now.inputs).filter(isPathParameter)
  const replacing = paths.filter(
    (path) => replacesResource(now.type, path, names) || refusesChange(now.type, path),
  )
  return [change(replacing.length > 0 ? 'replace' : 'update', old, { paths, replacing })]
}

/** Properties that end in `Name` and are no part of a resource's address. */
const OTHER_NAMES = ['customNetworkInterfaceName', 'groupShortName', 'principalName', 'roleName']
const OTHER_PARAMETERS = ['name', 'scope', 'resourceUri', 'objectId', 'roleDefinitionId']

/** Whether a property is part of the resource's address in Azure. A false match only makes the guard stricter. */
function isPathParameter(key: string): boolean {
  return (key.endsWith('Name') && !OTHER_NAMES.includes(key)) || OTHER_PARAMETERS.includes(key)
}

const isIgnored = (path: string, ignored: readonly string[]) =>
  ignored.some((one) => path === one || path.startsWith(`${one}.`) || path.startsWith(`${one}[`))

type Branch = { readonly [key: string]: PlannedValue }
const isBranch = (value: PlannedValue | undefined): value is Branch =>
  typeof value === 'object' && value !== null && !('$unknown' in value) && !('$secret' in value)

/** Paths of leaves that differ, as a program spells them: `agentPoolProfiles[0].count`. */
function differences(a: PlannedValue | undefined, b: PlannedValue | undefined, path: string): string[] {
  if (JSON.stringify(a) === JSON.stringify(b)) return []
  if (!isBranch(a) || !isBranch(b) || Array.isArray(a) !== Array.isArray(b)) return [path]
  const keys = [...new Set([...Object.keys(a), ...Object.keys(b)])]
  const below = (key: string) => (Array.isArray(a) ? `${path}[${key}]` : path === '' ? key : `${path}.${key}`)
  return keys.flatMap((key) => differences(a[key], b[key], below(key)))
}
