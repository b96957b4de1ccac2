import { isDeepStrictEqual } from 'node:util'

type Schemas = Record<string, unknown>
type Document = { readonly components?: { readonly schemas?: Schemas } | undefined }

const PREFIX = '#/components/schemas/'
/** Marks the schema of a request where it differs from that of a response: what has a default may be left out. */
const INPUT = 'Input'

/**
 * Leaves one name for each schema. The type provider writes each named schema twice, as `X` for responses and as
 * `XInput` for requests. Schemas that nothing refers to are dropped. `XInput` becomes `X` where only requests use it or
 * where both are the same; otherwise both stay.
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

/** The requests' schemas that differ from the responses' schemas of the same name. */
function findSeparate(schemas: Schemas, used: ReadonlySet<string>): Set<string> {
  const inBoth = [...used].filter((name) => isInputOf(name, schemas) && used.has(baseOf(name)))
  const separate = new Set<string>()
  // Schemas that refer to different schemas differ too: starts with none and ends when a round finds no more.
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

/** The names that `root` refers to, directly and through other schemas. */
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
