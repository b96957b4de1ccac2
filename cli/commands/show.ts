import type { Command } from 'commander'
import { type Approval, FINAL_STATES, type Run } from '../../contracts/api.ts'
import { EXIT } from '../exit-status.ts'
import { duration } from '../terminal/duration.ts'
import { facts } from '../terminal/table.ts'
import { visible } from '../terminal/visible.ts'
import { budgetUsesWords } from '../view/budget-words.ts'
import { queueWords } from '../view/queue-words.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
} from './command.ts'
import { stateColour, workspaceWords } from './runs.ts'

const between = (from: string | undefined, to: string | undefined) =>
  from === undefined ? undefined : duration((to ? Date.parse(to) : Date.now()) - Date.parse(from))

/** What a run waits for, since when, and the command that continues it, if no decision does. */
function waitsFor({ id, state, waiting }: Run): string | undefined {
  if (!waiting) return undefined
  const text = `${WAITS_FOR[waiting.for]}, for ${between(waiting.since, undefined)}`
  return waiting.for === 'resume' && state === 'suspended' ? `${text}: agentweaver resume ${id}` : text
}

const WAITS_FOR = {
  approval: 'an approval',
  question: 'an answer',
  turn: 'the next turn',
  resume: 'a person who continues it',
} as const

function factsOf(run: Run, { terminal }: CliContext): (readonly [string, string])[] {
  const { paint } = terminal
  const model = run.agent.model === undefined ? '' : `, ${run.agent.model}`
  const entries: (readonly [string, string | undefined])[] = [
    ['id', run.id],
    ['state', stateColour(run.state, paint)],
    ['failure', run.failure && `${visible(run.failure.message)} (${run.failure.code})`],
    [
      'outcome',
      run.outcome &&
        [run.outcome.outcome, run.outcome.summary].filter(Boolean).map(String).map(visible).join(': '),
    ],
    ['queue', run.queue && queueWords(run.queue, Date.now())],
    ['waits for', waitsFor(run)],
    ['task', run.kind === 'agent' ? visible(run.task) : undefined],
    ['agent', run.kind === 'agent' ? visible(run.agent.kind + model) : undefined],
    ['workspace', visible(workspaceWords(run.workspace))],
    ['sandbox', run.sandbox && `${run.sandbox.name} (${run.sandbox.isolation.backend})`],
    ['isolation', run.sandbox?.isolation.reason],
    [
      'labels',
      Object.entries(run.labels)
        .map(([key, value]) => visible(`${key}=${value}`))
        .join(' '),
    ],
    ['created', run.createdAt],
    ['first event', run.firstEventAt && between(run.createdAt, run.firstEventAt)],
    [run.endedAt === undefined ? 'so far' : 'in all', between(run.createdAt, run.endedAt)],
    ['used', budgetUsesWords(run.budgets)],
    ['checkpoint', run.checkpointAt],
    ['events', String(run.lastSequence)],
  ]
  return entries.filter((entry): entry is readonly [string, string] => Boolean(entry[1]))
}

function approvalLines(approvals: readonly Approval[], { terminal }: CliContext, runId: string): string[] {
  const pending = approvals.filter(({ state }) => state === 'pending')
  return pending.flatMap(({ requestId, tool, commandHash }) => [
    '',
    terminal.paint.yellow(
      `Waits for a decision: ${visible(tool)}${commandHash === undefined ? '' : ` ${commandHash}`}`,
    ),
    `  agentweaver approve ${runId} ${requestId}`,
    `  agentweaver deny ${runId} ${requestId}`,
    `  agentweaver logs ${runId}  shows what exactly it wants`,
  ])
}

export function showCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'show',
    about: 'Show a run or a sandbox: its state, its sandbox, and the requests that wait for a decision.',
    example: 'agentweaver show run_0197f6f2…',
  }).argument('<run>', 'id of the run')
  command.action(async (id: string) => {
    const options = parseOptions(ServiceOptions, command)
    await using connection = await openConnection(context, options, { whenAbsent: 'open' })
    const run = await connection.client.readRun(id)
    const isFinal = FINAL_STATES.some((state) => state === run.state)
    const approvals = isFinal ? [] : (await connection.client.listApprovals(id)).items
    if (options.json) context.terminal.json({ ...run, approvals })
    else {
      const { paint } = context.terminal
      context.terminal.print([
        ...facts(factsOf(run, context), paint),
        ...approvalLines(approvals, context, id),
      ])
    }
    context.exit(EXIT.ok)
  })
  return command
}
