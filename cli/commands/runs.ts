import type { Command } from 'commander'
import * as z from 'zod'
import { FINAL_STATES, type Run, type RunState } from '../../contracts/api.ts'
import { EXIT } from '../exit-status.ts'
import { age } from '../terminal/duration.ts'
import type { Paint } from '../terminal/paint.ts'
import { table } from '../terminal/table.ts'
import { visible } from '../terminal/visible.ts'
import { queueWords } from '../view/queue-words.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
} from './command.ts'

export const ListOptions = ServiceOptions.extend({
  limit: z.coerce.number().int().min(1).max(200).default(20),
  after: z.string().optional(),
})

export const stateColour = (state: RunState, paint: Paint): string => {
  if (state === 'succeeded') return paint.green(state)
  if (state === 'failed') return paint.red(state)
  return FINAL_STATES.some((final) => final === state) ? state : paint.cyan(state)
}

export function runTable(runs: readonly Run[], { terminal }: CliContext, what: string): string[] {
  const { paint, width } = terminal
  const now = Date.now()
  return table(
    runs,
    [
      { title: 'ID', value: ({ id }) => id },
      {
        title: 'STATE',
        value: ({ state }) => state,
        paint: (text, { state }) => text && stateColour(state, paint),
      },
      ...(runs.some(({ queue }) => queue)
        ? [{ title: 'QUEUE', value: ({ queue }: Run) => (queue ? queueWords(queue, now) : '') }]
        : []),
      { title: 'AGE', value: ({ createdAt }) => age(createdAt, now) },
      { title: 'AGENT', value: ({ agent }) => agent.kind },
      {
        title: what,
        value: ({ kind, task, workspace }) => visible(kind === 'agent' ? task : workspaceWords(workspace)),
      },
    ],
    { paint, width },
  )
}

export const workspaceWords = (workspace: Run['workspace']): string =>
  workspace.kind === 'path'
    ? workspace.path + (workspace.mode === 'isolated' ? ' (a copy)' : '')
    : workspace.kind

export function runsCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'runs',
    about: 'List your runs, newest first.',
    example: 'agentweaver runs --limit 5\nagentweaver runs --json | jq -r .items[].id',
  })
    .option('--limit <n>', 'how many (1 to 200)', '20')
    .option('--after <token>', 'the next page; the previous page prints the token')
  command.action(async () => {
    const options = parseOptions(ListOptions, command)
    await using connection = await openConnection(context, options, { whenAbsent: 'open' })
    const { limit, after } = options
    const page = await connection.client.listRuns({ limit, ...(after === undefined ? {} : { after }) })
    if (options.json) context.terminal.json(page)
    else {
      context.terminal.print(runTable(page.items, context, 'TASK'))
      if (page.next) context.terminal.note(`More: agentweaver runs --limit ${limit} --after ${page.next}`)
    }
    context.exit(EXIT.ok)
  })
  return command
}
