import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { EgressPolicyError, readEgressPolicyText } from '../../policies/agent/egress/load.ts'
import { messageOf } from '../../runtime/kit/errors.ts'
import { usageError } from '../cli-error.ts'
import type { CliContext } from './command.ts'

export type EgressText = { readonly name: string; readonly text: string }

/** The egress file that a person names, otherwise the file of this shell's service, otherwise the built-in list. */
export async function readEgressFile(
  { terminal }: CliContext,
  { given, option }: { readonly given: string | undefined; readonly option: string },
): Promise<EgressText> {
  const { cwd, env } = terminal.io
  const name = given ?? env['AGENTWEAVER_EGRESS_FILE']
  try {
    if (name === undefined) return { name: 'egress.yaml', text: readEgressPolicyText() }
    return { name, text: await readFile(resolve(cwd, name), 'utf8') }
  } catch (error) {
    const hint =
      given === undefined
        ? `AGENTWEAVER_EGRESS_FILE names it. Correct it, or name another file with ${option} PATH.`
        : `Correct the path after ${option}.`
    throw usageError(`The egress file cannot be read: ${messageOf(error)}`, hint)
  }
}

/** Reports an invalid egress file as a mistake of the person who named it. */
export function withEgressFile<T>({ name }: EgressText, work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (error instanceof EgressPolicyError) throw usageError(`${name} is not valid: ${error.message}`)
    throw error
  }
}
