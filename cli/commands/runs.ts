import type { Command } from 'commander'
import * as z from 'zod'
import { FINAL_STATES, type Run, type RunState } from '../../contracts/api.ts'
import type { Client } from '../../runtime/client/client.ts'
import { EXIT } from '../exit-status.ts'
import { age } from '../terminal/duration.ts'
import type { Paint } from '../terminal/paint.ts'
import { table } from '../terminal/table.ts'
import { visible } from '../terminal/visible.ts'
import { queueWords } from '../view/queue-words.ts'
import { continueWith, waitLine, waitOf, waitsForDecision } from '../view/wait-words.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
  serviceSuffix,
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
      ...(runs.some(({ restrictions }) => restrictions)
        ? [{ title: 'RESTRICTED', value: restrictedCell, paint: (text: string) => paint.yellow(text) }]
        : []),
      ...(runs.some(waitOf) ? [{ title: 'WAITS FOR', value: (run: Run) => waitCell(run, now) }] : []),
      { title: 'AGENT', value: ({ agent }) => agent.kind },
      {
        title: what,
        value: ({ kind, task, workspace }) => visible(kind === 'agent' ? task : workspaceWords(workspace)),
      },
    ],
    { paint, width },
  )
}

/** For example: `no-network`. */
const restrictedCell = ({ restrictions = [] }: Run): string =>
  [...new Set(restrictions.map(({ level }) => level))].join(', ')

function waitCell(run: Run, now: number): string {
  const wait = waitOf(run)
  return wait ? `${wait.what}, ${age(wait.since, now)}` : ''
}

export function workspaceWords(workspace: Run['workspace']): string {
  if (workspace.kind === 'run') return `files of ${workspace.runId}`
  if (workspace.kind === 'git') return repositoryWords(workspace)
  if (workspace.kind !== 'path') return workspace.kind
  return workspace.path + (workspace.mode === 'isolated' ? ' (a copy)' : '')
}

function repositoryWords({ url, ref, commit }: Extract<Run['workspace'], { kind: 'git' }>): string {
  return [url, ref && `ref ${ref}`, commit && `at ${commit}`].filter(Boolean).join(', ')
}

type Waiting = { readonly run: Run; readonly commands: readonly string[] }

/** The runs that wait, with the commands that continue them. */
async function waitingAmong(runs: readonly Run[], client: Client, suffix: string): Promise<Waiting[]> {
  const waiting: Waiting[] = []
  for (const run of runs.filter(waitOf)) {
    const approvals = waitsForDecision(run) ? (await client.listApprovals(run.id)).items : []
    waiting.push({ run, commands: continueWith(run, approvals, suffix) })
  }
  return waiting
}

const joined = (waiting: readonly Waiting[]) => (run: Run) => {
  const commands = waiting.find((one) => one.run === run)?.commands
  return commands ? { ...run, continueWith: commands } : run
}

export function runsCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'runs',
    about: 'List your runs, newest first, with the commands that continue those that wait.',
    example: 'agentweaver runs --limit 5\nagentweaver runs --json | jq -r .items[].id',
  })
    .option('--limit <n>', 'how many (1 to 200)', '20')
    .option('--after <token>', 'the next page; the previous page prints the token')
  command.action(async () => {
    const options = parseOptions(ListOptions, command)
    await using connection = await openConnection(context, options, { whenAbsent: 'open' })
    const { limit, after } = options
    const page = await connection.client.listRuns({ limit, ...(after === undefined ? {} : { after }) })
    const suffix = serviceSuffix(options)
    const waiting = await waitingAmong(page.items, connection.client, suffix)
    if (options.json) context.terminal.json({ ...page, items: page.items.map(joined(waiting)) })
    else {
      context.terminal.print(runTable(page.items, context, 'TASK'))
      const now = Date.now()
      context.terminal.note(waiting.map(({ run, commands }) => waitLine(run, commands, now)))
      if (page.next) context.terminal.note(`More: agentweaver runs --limit ${limit} --after ${page.next}`)
    }
    context.exit(EXIT.ok)
  })
  return command
}
