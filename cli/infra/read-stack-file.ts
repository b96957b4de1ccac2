import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { readStackText, type StackText } from '../../infra/stack-file.ts'
import { messageOf } from '../../runtime/kit/errors.ts'
import { usageError } from '../cli-error.ts'

const STACK = /^[a-z0-9][a-z0-9-]{0,99}$/

/** The file of a stack's name, or the path that was given instead. */
export const stackFileOf = (wanted: string): string => (STACK.test(wanted) ? `Pulumi.${wanted}.yaml` : wanted)

/**
 * Reads the section `config` of a stack file, and reports values that YAML parsers read differently. Throws if the text
 * is not a stack file.
 */
export async function readStackFile(folder: string, wanted: string): Promise<StackText> {
  const path = stackFileOf(wanted)
  const text = await textOf(resolve(folder, path), path, folder)
  try {
    return readStackText(text)
  } catch (error) {
    throw usageError(`${path}: ${messageOf(error)}`)
  }
}

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
