import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseDocument } from 'yaml'
import { CONFIG_NAMESPACE, parseInfraConfig } from '../../infra/config-schema.ts'
import { problemLines } from '../../infra/config-sections.ts'
import { quoted, STYLE } from '../../infra/stack-file.ts'
import { CliError, usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { readStackFile } from '../infra/read-stack-file.ts'

export interface PreviewConfig {
  /** The stack that the slice is cut from. */
  readonly environment: string
  readonly slug: string
  readonly branch: string
  readonly expires: Date
}

interface Wanted {
  readonly folder: string
  readonly stack: string
  readonly secretsProvider: string | undefined
}

/** Characters of a branch in its tag: Azure allows 256 in a tag. */
const TAG_CHARACTERS = 200
/** Characters that could mislead a reader of a tag, and characters that Azure rejects. */
const UNREADABLE = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069<>%&\\?]/gu

/**
 * Returns the configuration keys of a slice, with the owner and the cost centre of its environment. Throws for a value
 * that the program would reject.
 */
export async function previewKeys(folder: string, config: PreviewConfig): Promise<Record<string, unknown>> {
  const { environment, slug, branch, expires } = config
  if (environment === 'prod')
    throw usageError(
      'prod has no previews, because code of a branch would run in the same cluster.',
      'Name another --environment.',
    )
  const base = await readStackFile(folder, environment)
  if (base.problems.length > 0) throw usageError(problemLines(`Pulumi.${environment}.yaml`, base.problems))
  const keys = {
    kind: 'slice',
    environment,
    slug,
    branch: branch.replaceAll(UNREADABLE, '_').slice(0, TAG_CHARACTERS).toWellFormed(),
    expires: `${expires.toISOString().slice(0, 19)}Z`,
    tags: base.config[`${CONFIG_NAMESPACE}:tags`],
  }
  const parsed = parseInfraConfig(keys)
  if ('problems' in parsed) {
    throw usageError(problemLines('The preview', parsed.problems))
  }
  return keys
}

/**
 * Writes the keys into the stack's file and keeps the CLI's own entries (the wrapped key of its secrets). The file does
 * not exist on a machine that uses the stack for the first time; then the secrets provider is written too.
 */
export async function writeStackFile(wanted: Wanted, keys: Readonly<Record<string, unknown>>): Promise<void> {
  const path = join(wanted.folder, `Pulumi.${wanted.stack}.yaml`)
  const document = parseDocument(await textOf(path))
  if (document.errors.length > 0) throw new CliError(`${path} is not YAML.`, { status: EXIT.usage })
  const { secretsProvider } = wanted
  const isEmpty = document.contents === null
  if (isEmpty) document.contents = document.createNode({}) as never
  if (secretsProvider !== undefined && !document.has('secretsprovider'))
    document.set('secretsprovider', secretsProvider)
  for (const [key, value] of Object.entries(keys))
    document.setIn(['config', `${CONFIG_NAMESPACE}:${key}`], document.createNode(value))
  await writeFile(path, quoted(document).toString(STYLE))
}

async function textOf(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
    throw error
  }
}
