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
      'Move the state of an earlier version (store, keys, API key) from a project into your own state folder. Stop the service that uses it first. After an interrupted move, run the command again: the old folder is complete, or the move continues.',
    example: 'agentweaver move-state ~/project/.agentweaver',
  }).argument(
    '[folder]',
    'the old folder (default: the nearest .agentweaver in this folder, a folder above it, or your home)',
  )
  command.action(async (folder: string | undefined) => {
    const { json } = parseOptions(MoveOptions, command)
    const { terminal } = context
    const { stateDir, earlier } = readClientConfig({}, terminal.io)
    const from = folder === undefined ? earlier.found[0] : resolve(terminal.io.cwd, folder)
    if (from === undefined)
      throw usageError(
        'No state of an earlier version was found here or in the home folder.',
        'Name its folder.',
      )
    const to = stateDir.value
    const files = await move({ from, to })
    if (json) terminal.json({ from, to, files })
    else terminal.print(`Moved ${files.length} files from ${from} to ${to}.`)
    context.exit(EXIT.ok)
  })
  return command
}

async function move(places: { from: string; to: string }): Promise<readonly string[]> {
  // Imported here because it loads SQLite (for the lock), which no other command needs.
  const { moveState } = await import('../../runtime/state-folder/move-state.ts')
  try {
    return await moveState(places)
  } catch (error) {
    if (!(error instanceof Distrust)) throw error
    throw new CliError(error.message, {
      status: EXIT.refused,
      hint: 'Both folders must belong to you and be closed to other users.',
      cause: error,
    })
  }
}
