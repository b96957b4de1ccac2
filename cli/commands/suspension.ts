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

export function suspendCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'suspend',
    about:
      'Save a run that waits for a person and give its sandbox back. The run continues when it gets its decision, answer or next turn.',
    example: 'agentweaver suspend run_0197f6f2…',
  }).argument('<run>', 'id of the run')
  command.action((runId: string) => change(context, command, { runId, to: 'suspend' }))
  return command
}

export function resumeCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'resume',
    about: 'Continue a suspended run in a new sandbox. Without a decision, it waits again.',
    example: 'agentweaver resume run_0197f6f2…',
  }).argument('<run>', 'id of the run')
  command.action((runId: string) => change(context, command, { runId, to: 'resume' }))
  return command
}

type Change = { readonly runId: string; readonly to: 'suspend' | 'resume' }

async function change(context: CliContext, command: Command, { runId, to }: Change): Promise<void> {
  const options = parseOptions(ServiceOptions, command)
  const { terminal } = context
  await using connection = await openConnection(context, options)
  terminal.progress.waitFor(to === 'suspend' ? 'saving the run' : 'queueing the run')
  const { client } = connection
  const before = await client.readRun(runId)
  const run = await (to === 'suspend' ? client.suspend(runId) : client.resume(runId))
  if (options.json) terminal.json(run)
  else terminal.print(`${run.id}  ${stateColour(run.state, terminal.paint)}`)
  if (to === 'resume' && before.state !== 'suspended' && before.state !== 'suspending')
    terminal.note('It was not suspended: nothing was done.')
  context.exit(EXIT.ok)
}
