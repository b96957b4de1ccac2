import { resolve } from 'node:path'
import type { Command } from 'commander'
import * as z from 'zod'
import { Distrust } from '../../runtime/state-folder/private-folder.ts'
import { CliError, usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { readClientConfig } from '../service/client-config.ts'
import { type CliContext, newCommand, parseOptions } from './command.ts'

const MoveOptions = z.object({ json: z.boolean().default(false) })

export function moveStateCommand(context: CliContext): Command {
  const command = newCommand({
    usage: 'move-state',
    about:
      'Move the state of an earlier version (store, keys, API key) out of a project into your own state folder. The service that uses it must be stopped. A move that is interrupted leaves the old folder whole, or goes on with the next one.',
    example: 'agentweaver move-state ~/project/.agentweaver',
  }).argument(
    '[folder]',
    'the old folder; default: the nearest .agentweaver at or above this folder, or at home',
  )
  command.action(async (folder: string | undefined) => {
    const { json } = parseOptions(MoveOptions, command)
    const { terminal } = context
    const { stateDir, earlier } = readClientConfig({}, terminal.io)
    const from = folder === undefined ? earlier.found[0] : resolve(terminal.io.cwd, folder)
    if (from === undefined)
      throw usageError('There is no state of an earlier version here or at home.', 'Name its folder.')
    const to = stateDir.value
    const files = await move({ from, to })
    if (json) terminal.json({ from, to, files })
    else terminal.print(`Moved ${files.length} files from ${from} to ${to}.`)
    context.exit(EXIT.ok)
  })
  return command
}

async function move(places: { from: string; to: string }): Promise<readonly string[]> {
  // Loads SQLite for the lock, which no other command needs.
  const { moveState } = await import('../../runtime/state-folder/move-state.ts')
  try {
    return await moveState(places)
  } catch (error) {
    if (!(error instanceof Distrust)) throw error
    throw new CliError(error.message, {
      status: EXIT.refused,
      hint: 'Only a folder that is yours and closed to others is moved, into one that is.',
      cause: error,
    })
  }
}
