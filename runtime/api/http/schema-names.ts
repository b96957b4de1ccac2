import { isDeepStrictEqual } from 'node:util'

type Schemas = Record<string, unknown>
type Document = { readonly components?: { readonly schemas?: Schemas } | undefined }

const PREFIX = '#/components/schemas/'
/** Suffix of a request schema that differs from the response schema, for example because of a default. */
const INPUT = 'Input'

/**
 * Reduces the document to one name per schema. The type provider emits each named schema as `X` (responses) and `XInput`
 * (requests). Unused schemas are dropped. `XInput` becomes `X` if only requests use it or if both are equal; otherwise both
 * names stay.
 */
export function useOneNameEach<D extends Document>(document: D): D {
  const schemas = document.components?.schemas ?? {}
  const used = findUsed({ ...document, components: { ...document.components, schemas: {} } }, schemas)
  const names = Object.keys(schemas).filter((name) => used.has(name))
  const rename = renamer(schemas, findSeparate(schemas, used))
  const merged = Object.fromEntries(names.map((name) => [rename(name), schemas[name]]))
  const sorted = Object.fromEntries(Object.entries(merged).sort(([a], [b]) => (a < b ? -1 : 1)))
  return renameRefs({ ...document, components: { ...document.components, schemas: sorted } }, rename)
}

/** Request schemas that differ from the response schema of the same name. */
function findSeparate(schemas: Schemas, used: ReadonlySet<string>): Set<string> {
  const inBoth = [...used].filter((name) => isInputOf(name, schemas) && used.has(baseOf(name)))
  const separate = new Set<string>()
  // A schema also differs if it refers to schemas that differ, so this repeats until a round finds no more.
  for (let before = -1; before < separate.size; ) {
    before = separate.size
    const rename = renamer(schemas, new Set(separate))
    for (const name of inBoth) {
      const [input, output] = [schemas[name], schemas[baseOf(name)]].map((schema) =>
        renameRefs(schema, rename),
      )
      if (!isDeepStrictEqual(input, output)) separate.add(name)
    }
  }
  return separate
}

const baseOf = (name: string) => name.slice(0, -INPUT.length)
const isInputOf = (name: string, schemas: Schemas) => name.endsWith(INPUT) && baseOf(name) in schemas

const renamer = (schemas: Schemas, separate: ReadonlySet<string>) => (name: string) =>
  isInputOf(name, schemas) && !separate.has(name) ? baseOf(name) : name

/** Names that `root` refers to, directly or through other schemas. */
function findUsed(root: unknown, schemas: Schemas): Set<string> {
  const used = new Set<string>()
  const waiting: unknown[] = [root]
  while (waiting.length > 0) {
    renameRefs(waiting.pop(), (name) => {
      if (!used.has(name)) waiting.push(schemas[name])
      used.add(name)
      return name
    })
  }
  return used
}

function renameRefs<T>(value: T, rename: (name: string) => string): T {
  const text = JSON.stringify(value, (key, part) =>
    key === '$ref' && typeof part === 'string' && part.startsWith(PREFIX)
      ? PREFIX + rename(part.slice(PREFIX.length))
      : part,
  )
  return JSON.parse(text)
}
