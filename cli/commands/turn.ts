import type { Command } from 'commander'
import * as z from 'zod'
import { EXIT } from '../exit-status.ts'
import { exitStatusOfEnding, followRun } from '../follow/follow-run.ts'
import { createPresenter } from '../follow/presenter.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
  serviceSuffix,
} from './command.ts'

const TurnOptions = ServiceOptions.extend({
  final: z.boolean().default(false),
  detach: z.boolean().default(false),
})

export function turnCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'turn',
    about: 'Give an open run its next prompt and follow the turn to its end.',
    example: 'agentweaver turn run_0197f6f2… "now update the changelog" --final',
  })
    .argument('<run>', 'id of the run')
    .argument('<prompt>', 'what the agent should do next')
    .option('--final', 'end the run after this turn')
    .option('-d, --detach', 'start the turn and return')
  command.action(async (runId: string, prompt: string) => {
    const options = parseOptions(TurnOptions, command)
    const { terminal } = context
    await using connection = await openConnection(context, options)
    const { client } = connection
    const { lastSequence } = await client.readRun(runId)
    const turn = await client.startTurn(runId, { prompt, final: options.final })
    if (options.detach) {
      if (options.json) terminal.json(turn)
      else terminal.print(turn.id)
      return context.exit(EXIT.ok)
    }
    const ending = await followRun({
      terminal,
      client,
      runId,
      after: lastSequence,
      show: createPresenter(terminal, { json: options.json, suffix: serviceSuffix(options) }),
      decide: () => 'ask',
      onInterrupt: 'ask',
      ...(options.final ? {} : { untilTurn: turn.id }),
      isEmbedded: false,
      suffix: serviceSuffix(options),
    })
    context.exit(exitStatusOfEnding(ending))
  })
  return command
}
