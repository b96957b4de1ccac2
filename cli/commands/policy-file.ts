import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import type { SandboxSettingsPatch } from '../../contracts/policy.ts'
import { parseRepositorySettings } from '../../policies/agent/settings.ts'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { visible } from '../terminal/visible.ts'
import type { CliContext } from './command.ts'

/** Reads settings from a file, or from standard input for "-". */
export async function readSettings(context: CliContext, file: string): Promise<SandboxSettingsPatch> {
  const parsed = parseRepositorySettings(await textOf(context, file))
  if (parsed.ok) return parsed.patch
  const name = file === '-' ? 'standard input' : visible(file)
  throw new CliError(`${name}, line ${parsed.line}: ${visible(parsed.reason)}`, { status: EXIT.usage })
}

const textOf = ({ terminal }: CliContext, file: string): Promise<string> =>
  file === '-'
    ? text(terminal.io.stdin)
    : readFile(file, 'utf8').catch((error: Error) => {
        throw new CliError(`${visible(file)} cannot be read: ${visible(error.message)}`, {
          status: EXIT.usage,
        })
      })
