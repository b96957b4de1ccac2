import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { parseDocument } from 'yaml'
import { usageError } from '../cli-error.ts'

const STACK = /^[a-z0-9][a-z0-9-]{0,99}$/

/** The file of a stack's name, or the path that was given instead. */
export const stackFileOf = (wanted: string): string => (STACK.test(wanted) ? `Pulumi.${wanted}.yaml` : wanted)

/**
 * The section `config` of a stack file. Throws for what is no such file, and for a key that stands twice, of which YAML
 * readers keep another one each.
 */
export async function readStackFile(folder: string, wanted: string): Promise<Record<string, unknown>> {
  const path = stackFileOf(wanted)
  const document = parseDocument(await textOf(resolve(folder, path), path, folder))
  const [error] = document.errors
  if (error) throw usageError(`${path}: ${error.message.split('\n')[0] ?? 'is not YAML'}`)
  const content: unknown = document.toJS({ maxAliasCount: 20 })
  const config = isRecord(content) ? (content['config'] ?? {}) : undefined
  if (!isRecord(config)) throw usageError(`${path}: has no map of keys under "config".`)
  return config
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

async function textOf(file: string, path: string, folder: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'ENOENT') throw usageError(`${path} cannot be read (${code ?? 'unknown'}).`)
    throw usageError(
      `There is no file ${path} in ${folder}.`,
      'Give the name of a stack, or the path of its file; Pulumi.dev.yaml is an example.',
    )
  }
}
