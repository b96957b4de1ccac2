import { createHash, randomUUID } from 'node:crypto'
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { JsonSchema } from './type-schema.ts'

const requireJson = createRequire(import.meta.url)
const versionOf = (name: string): string => requireJson(`${name}/package.json`).version

/** The source files that determine the schemas; a change in one of them needs new schemas. */
const SOURCES = ['declarations.ts', 'type-schema.ts', 'constraints.ts', 'cache.ts']

/**
 * A folder in the user's cache folder, outside any clone. It has one subfolder for each version of the schemas'
 * sources.
 */
export function shapesFolder(cacheHome: string | undefined): string {
  return join(cacheHome || join(homedir(), '.cache'), 'agentweaver-sandbox', 'shapes')
}

async function versionedFolder(root: string): Promise<string> {
  const hash = createHash('sha256')
  for (const name of SOURCES) hash.update(await readFile(new URL(name, import.meta.url)))
  const versions = [versionOf('@pulumi/azure-native'), versionOf('@azure/arm-containerservice')]
  return join(root, [...versions, hash.digest('hex').slice(0, 12)].join('_'))
}

/**
 * Content of a cache file. `digest` is the digest of the schema's text, so that a truncated or edited file is rebuilt.
 */
interface Kept {
  readonly digest: string
  readonly schema: JsonSchema | null
}

const digestOf = (schema: JsonSchema | null) =>
  createHash('sha256').update(JSON.stringify(schema)).digest('hex')

/**
 * Returns the schema of one resource, built once for all processes. If two processes start together, both build it, and
 * the second replaces the file with the same content. A rename is atomic, so half a second of double work needs no
 * lock.
 */
export async function keepSchema(
  root: string,
  [module, resource]: readonly [string, string],
  make: () => Promise<JsonSchema | undefined>,
): Promise<JsonSchema | undefined> {
  const folder = await versionedFolder(root)
  const file = join(folder, `${module}.${resource}.json`)
  const kept = await readKept(file)
  if (kept !== undefined) return kept.schema ?? undefined
  const schema = (await make()) ?? null
  const scratch = `${file}.${randomUUID()}`
  await mkdir(folder, { recursive: true })
  await writeFile(scratch, JSON.stringify({ digest: digestOf(schema), schema } satisfies Kept))
  await rename(scratch, file)
  return schema ?? undefined
}

async function readKept(file: string): Promise<Kept | undefined> {
  const text = await readFile(file, 'utf8').catch(() => '{}')
  try {
    const kept = JSON.parse(text) as Partial<Kept>
    if (kept.schema === undefined || kept.digest !== digestOf(kept.schema)) return undefined
    return { digest: kept.digest, schema: kept.schema }
  } catch {
    return undefined
  }
}
