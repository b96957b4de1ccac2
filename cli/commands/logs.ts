import type { Command } from 'commander'
import * as z from 'zod'
import type { RunEnvelope } from '../../contracts/events.ts'
import type { Client } from '../../runtime/client/client.ts'
import { EXIT } from '../exit-status.ts'
import { exitStatusOfEnding, followRun } from '../follow/follow-run.ts'
import { createPresenter } from '../follow/presenter.ts'
import {
  type CliContext,
  Count,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
  serviceSuffix,
} from './command.ts'

const LogsOptions = ServiceOptions.extend({
  follow: z.boolean().default(false),
  after: Count.default(0),
})
const PAGE = 200

/** Reads the stored events after a sequence, page by page. */
async function* storedEvents(client: Client, runId: string, after: number): AsyncGenerator<RunEnvelope> {
  let cursor = after
  while (true) {
    const { items } = await client.readEvents(runId, { after: cursor, limit: PAGE })
    yield* items
    const last = items.at(-1)
    if (!last || items.length < PAGE) return
    cursor = last.sequence
  }
}

export function logsCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'logs',
    about:
      'Print the events of a run. With -f, follow the run until it ends; Ctrl-C stops following and leaves the run running.',
    example: 'agentweaver logs -f run_0197f6f2…\nagentweaver logs run_0197f6f2… --after 120 --json',
  })
    .argument('<run>', 'id of the run or sandbox')
    .option('-f, --follow', 'follow the run until it ends')
    .option('--after <sequence>', 'print only events after this sequence number', '0')
  command.action(async (runId: string) => {
    const options = parseOptions(LogsOptions, command)
    await using connection = await openConnection(context, options, {
      whenAbsent: options.follow ? 'require' : 'open',
    })
    const { terminal } = context
    const show = createPresenter(terminal, { json: options.json, suffix: serviceSuffix(options) })
    if (!options.follow) {
      for await (const envelope of storedEvents(connection.client, runId, options.after))
        show(runId, envelope)
      return context.exit(EXIT.ok)
    }
    const ending = await followRun({
      terminal,
      client: connection.client,
      runId,
      after: options.after,
      show,
      decide: () => 'watch',
      onInterrupt: 'leave',
      isEmbedded: false,
      suffix: serviceSuffix(options),
    })
    context.exit(exitStatusOfEnding(ending))
  })
  return command
}
