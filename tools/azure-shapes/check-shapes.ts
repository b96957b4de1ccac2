import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv'
import type { Plan, PlannedResource } from '../../contracts/planned-resource.ts'
import { BEYOND_THE_TYPES } from './beyond-the-types.ts'
import { keepSchema } from './cache.ts'
import type { Declarations } from './declarations.ts'
import type { JsonSchema } from './type-schema.ts'

/** The problem of one input of one resource: the path, and the types and ranges that Azure allows there. */
export interface ShapeProblem {
  readonly urn: string
  /** As it is written in a program: `agentPoolProfiles[0].mode`. Empty for the resource itself. */
  readonly path: string
  readonly message: string
}

/** Validators by type token; undefined for a type that the pinned SDK does not have. */
export type Shapes = ReadonlyMap<string, ValidateFunction | undefined>

const AZURE = /^azure-native:([A-Za-z0-9]+):([A-Za-z0-9]+)$/

/**
 * The validators that a plan needs. A dozen types take about two seconds and 200 MB the first time and tens of
 * milliseconds later (`cacheRoot` stores the result by version).
 */
export async function loadShapes(types: Iterable<string>, cacheRoot: string): Promise<Shapes> {
  const ajv = new Ajv({
    allErrors: true,
    verbose: true,
    strict: true,
    strictRequired: false,
    strictTypes: false,
    code: { optimize: false },
  })
  const maker = createMaker()
  const shapes = new Map<string, ValidateFunction | undefined>()
  for (const type of new Set(types)) {
    const [, module = '', resource = ''] = AZURE.exec(type) ?? []
    if (module === '') continue
    const schema = await keepSchema(cacheRoot, [module, resource], () => maker(module, resource))
    shapes.set(type, schema === undefined ? undefined : ajv.compile(schema))
  }
  return shapes
}

/** Loads the compiler and the mappers only if a schema must be built. */
function createMaker() {
  let declared: Declarations | undefined
  return async (module: string, resource: string): Promise<JsonSchema | undefined> => {
    const [{ readDeclarations }, { schemaOf }, { constrain, readServiceConstraints }] = await Promise.all([
      import('./declarations.ts'),
      import('./type-schema.ts'),
      import('./constraints.ts'),
    ])
    declared ??= readDeclarations()
    const schema = schemaOf(declared, module, resource)
    if (schema === undefined || module !== 'containerservice') return schema
    return constrain(schema, resource, await readServiceConstraints())
  }
}

/** Every azure-native input that is not of the shape that the pinned SDK declares, in the order of the plan. */
export function checkShapes(plan: Plan, shapes: Shapes): ShapeProblem[] {
  return plan.resources.flatMap((resource) => problemsOf(resource, shapes))
}

/** Types of the plan without a shape: types of other providers, and of azure-native at another API version. */
export function typesWithoutShape(plan: Plan): string[] {
  const custom = plan.resources.filter((resource) => resource.custom).map(({ type }) => type)
  return [...new Set(custom)].filter((type) => !type.startsWith('azure-native:')).sort()
}

function problemsOf({ type, urn, inputs }: PlannedResource, shapes: Shapes): ShapeProblem[] {
  if (!type.startsWith('azure-native:')) return []
  if (!shapes.has(type)) return [{ urn, path: '', message: `the shape of ${type} was not loaded` }]
  const validate = shapes.get(type)
  if (validate === undefined) {
    return [{ urn, path: '', message: `${type} is not in the pinned azure-native: check its spelling` }]
  }
  if (validate(inputs)) return []
  const causes = (validate.errors ?? []).filter((error) => isCause(error) && !isTakenByAzure(type, error))
  return causes.map((error) => ({ urn, ...told(error) }))
}

/** `if` only reports that a branch failed; the branch has reported the reason. */
const isCause = ({ keyword }: ErrorObject) => keyword !== 'if'

/** Returns whether Azure accepts a value although the SDK's enum does not have it. */
function isTakenByAzure(type: string, { keyword, instancePath, data }: ErrorObject): boolean {
  const place = spell(instancePath).replaceAll(/\[\d+\]/g, '[]')
  return keyword === 'enum' && BEYOND_THE_TYPES[type]?.[place]?.includes(data as string) === true
}

function told(error: ErrorObject): { path: string; message: string } {
  const path = spell(error.instancePath)
  const named = (name: string) => (path === '' ? name : `${path}.${name}`)
  if (error.keyword === 'required') {
    return { path: named(error.params['missingProperty']), message: 'is missing; Azure requires it' }
  }
  if (error.keyword === 'additionalProperties') {
    const unknown = String(error.params['additionalProperty'])
    return { path: named(unknown), message: `is not a property that Azure knows; ${suggest(unknown, error)}` }
  }
  return { path, message: (MESSAGES[error.keyword] ?? (() => error.message ?? 'is not allowed'))(error) }
}

const MESSAGES: Readonly<Record<string, (error: ErrorObject) => string>> = {
  enum: ({ params, data }) => `is ${show(data)}; Azure takes ${params['allowedValues'].map(show).join(', ')}`,
  const: ({ params, data }) => `is ${show(data)}; Azure takes ${show(params['allowedValue'])}`,
  type: ({ params, data }) => `is ${kindOf(data)}; Azure takes ${params['type']}`,
  pattern: ({ params, data }) => `is ${show(data)}; Azure takes what matches ${params['pattern']}`,
  maximum: ({ params, data }) => `is ${show(data)}; Azure takes at most ${params['limit']}`,
  minimum: ({ params, data }) => `is ${show(data)}; Azure takes at least ${params['limit']}`,
  maxLength: ({ params, data }) => `is ${show(data)}; Azure takes at most ${params['limit']} characters`,
  minLength: ({ params, data }) => `is ${show(data)}; Azure takes at least ${params['limit']} characters`,
}

function kindOf(data: unknown): string {
  if (data === null) return 'null'
  return Array.isArray(data) ? 'array' : typeof data
}

const MAX_SHOWN = 60

function show(value: unknown): string {
  const text = typeof value === 'object' && value !== null ? kindOf(value) : JSON.stringify(value)
  return text.length <= MAX_SHOWN ? text : `${text.slice(0, MAX_SHOWN)}…`
}

function suggest(unknown: string, { parentSchema }: ErrorObject): string {
  const known = Object.keys((parentSchema?.['properties'] as object | undefined) ?? {}).sort()
  const near = known.filter((name) => distance(name.toLowerCase(), unknown.toLowerCase()) <= 2)
  return near.length > 0 ? `did you mean ${near.join(' or ')}?` : `it knows ${known.join(', ')}`
}

/** Edits between two names. */
function distance(a: string, b: string): number {
  const first = [...Array(b.length + 1).keys()]
  const last = [...a].reduce((row, letter, i) => {
    const next = [i + 1]
    for (const [j, other] of [...b].entries()) {
      next.push(
        Math.min((next[j] ?? 0) + 1, (row[j + 1] ?? 0) + 1, (row[j] ?? 0) + (letter === other ? 0 : 1)),
      )
    }
    return next
  }, first)
  return last.at(-1) ?? 0
}

/** A JSON pointer as a program spells it. */
function spell(pointer: string): string {
  const parts = pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
  return parts.reduce((path, part) => {
    if (/^\d+$/.test(part)) return `${path}[${part}]`
    return path === '' ? part : `${path}.${part}`
  }, '')
}
