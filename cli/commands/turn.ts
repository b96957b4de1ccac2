import type { Command } from 'commander'
import * as z from 'zod'
import type { Run } from '../../contracts/api.ts'
import type { Client } from '../../runtime/client/client.ts'
import { EXIT } from '../exit-status.ts'
import { exitStatusOfEnding, followRun } from '../follow/follow-run.ts'
import { createPresenter } from '../follow/presenter.ts'
import { continueWith, waitsForDecision } from '../view/wait-words.ts'
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

type Waiting = { readonly client: Client; readonly run: Run; readonly suffix: string }

/** The stream that follows does not repeat an earlier request, and the new turn does not begin before its decision. */
async function noteWait({ terminal }: CliContext, { client, run, suffix }: Waiting): Promise<void> {
  if (!waitsForDecision(run)) return
  const { items } = await client.listApprovals(run.id)
  const commands = continueWith(run, items, suffix).map((command) => `  ${command}`)
  if (commands.length > 0)
    terminal.note([
      'The turn begins after the decision that the run waits for. Decide with one of:',
      ...commands,
    ])
}

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
    const run = await client.readRun(runId)
    const turn = await client.startTurn(runId, { prompt, final: options.final })
    if (options.detach) {
      if (options.json) terminal.json(turn)
      else terminal.print(turn.id)
      return context.exit(EXIT.ok)
    }
    await noteWait(context, { client, run, suffix: serviceSuffix(options) })
    const ending = await followRun({
      terminal,
      client,
      runId,
      after: run.lastSequence,
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
