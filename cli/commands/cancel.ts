import type { Command } from 'commander'
import { EXIT } from '../exit-status.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
} from './command.ts'
import { stateColour } from './runs.ts'

export function cancelCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'cancel',
    about: 'Cancel a run: its commands are killed and its sandbox is destroyed.',
    example: 'agentweaver cancel run_0197f6f2…',
  }).argument('<run>', 'id of the run')
  command.action(async (runId: string) => {
    const options = parseOptions(ServiceOptions, command)
    const { terminal } = context
    await using connection = await openConnection(context, options)
    terminal.progress.waitFor('cancelling the run')
    const run = await connection.client.cancel(runId)
    if (options.json) terminal.json(run)
    else terminal.print(`${run.id}  ${stateColour(run.state, terminal.paint)}`)
    context.exit(EXIT.ok)
  })
  return command
}
