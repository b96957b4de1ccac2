import type { Command } from 'commander'
import { type Approval, FINAL_STATES, type Run } from '../../contracts/api.ts'
import type { RunEgress } from '../../contracts/run-egress.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { EXIT } from '../exit-status.ts'
import { duration } from '../terminal/duration.ts'
import { facts } from '../terminal/table.ts'
import { visible } from '../terminal/visible.ts'
import { budgetUsesWords } from '../view/budget-words.ts'
import { queueReason, queueWords } from '../view/queue-words.ts'
import { restrictionWords } from '../view/restriction-words.ts'
import { sourceWords } from '../view/source-words.ts'
import { continueWith, decisionCommands, isQuestion, waitOf } from '../view/wait-words.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
  serviceSuffix,
} from './command.ts'
import { stateColour, workspaceWords } from './runs.ts'

const between = (from: string | undefined, to: string | undefined) =>
  from === undefined ? undefined : duration((to ? Date.parse(to) : Date.now()) - Date.parse(from))

function waitWords(run: Run): string | undefined {
  const wait = waitOf(run)
  return wait && `${wait.what}, since ${wait.since} (${between(wait.since, undefined)})`
}

const restrictedWords = ({ restrictions }: Run) =>
  restrictions?.map((one) => restrictionWords({ ...one, scope: one.scope.kind })).join('; ')

/** A service of an earlier release does not tell what was refused. */
function withoutRoute(error: unknown): undefined {
  if (error instanceof SandboxError && error.code === 'not_found') return undefined
  throw error
}

function networkWords(egress: RunEgress | undefined): string | undefined {
  if (!egress) return undefined
  const { runId, denied } = egress
  const count = denied.reduce((sum, one) => sum + one.count, 0)
  if (count === 0) return undefined
  return `${count} ${count === 1 ? 'connection' : 'connections'} refused: agentweaver egress explain ${runId}`
}

const WITHOUT_SANDBOX: ReadonlySet<Run['state']> = new Set(['queued', 'pending_capacity', 'suspended'])

/** The service names the last sandbox, which the run may have given back. */
const sandboxOf = ({ state, sandbox }: Run) => (WITHOUT_SANDBOX.has(state) ? undefined : sandbox)

function factsOf(
  run: Run,
  egress: RunEgress | undefined,
  { terminal }: CliContext,
): (readonly [string, string])[] {
  const { paint } = terminal
  const model = run.agent.model === undefined ? '' : `, ${run.agent.model}`
  const sandbox = sandboxOf(run)
  const entries: (readonly [string, string | undefined])[] = [
    ['id', run.id],
    ['state', stateColour(run.state, paint)],
    ['failure', run.failure && `${visible(run.failure.message)} (${run.failure.code})`],
    [
      'outcome',
      run.outcome &&
        [run.outcome.outcome, run.outcome.summary].filter(Boolean).map(String).map(visible).join(': '),
    ],
    ['queue', run.queue && `${queueWords(run.queue, Date.now())}; ${queueReason(run)}`],
    ['waits for', waitWords(run)],
    ['restricted', restrictedWords(run)],
    ['network', networkWords(egress)],
    ['task', run.kind === 'agent' ? visible(run.task) : undefined],
    ['agent', run.kind === 'agent' ? visible(run.agent.kind + model) : undefined],
    ['workspace', visible(workspaceWords(run.workspace))],
    ['source', run.source && visible(sourceWords(run.source))],
    ['sandbox', sandbox && `${sandbox.name} (${sandbox.isolation.backend})`],
    ['isolation', sandbox?.isolation.reason],
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

/** The requests that wait for a decision, and the commands that continue the run. */
function continueLines(run: Run, approvals: readonly Approval[], { terminal, suffix }: Shown): string[] {
  const pending = approvals.filter(({ state }) => state === 'pending')
  const requests = pending.flatMap((approval) => [
    '',
    terminal.paint.yellow(`Waits for ${requestWords(approval)}, until ${approval.expiresAt}`),
    ...decisionCommands(approval, suffix).map((command) => `  ${command}`),
  ])
  const others = continueWith(run, [], suffix).map((command) => `  ${command}`)
  return [
    ...requests,
    ...(pending.length > 0 ? [`  agentweaver logs ${run.id}${suffix}  shows what exactly it wants`] : []),
    ...(others.length > 0 ? ['', terminal.paint.yellow('Continue it with:'), ...others] : []),
  ]
}

const requestWords = (approval: Approval): string =>
  isQuestion(approval)
    ? 'an answer'
    : `a decision: ${visible([approval.tool, approval.commandHash].filter(Boolean).join(' '))}`

type Shown = Pick<CliContext, 'terminal'> & { readonly suffix: string }

export function showCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'show',
    about:
      'Show a run or a sandbox: its state, its sandbox, what it waits for, and the commands that continue it.',
    example: 'agentweaver show run_0197f6f2…',
  }).argument('<run>', 'id of the run')
  command.action(async (id: string) => {
    const options = parseOptions(ServiceOptions, command)
    await using connection = await openConnection(context, options, { whenAbsent: 'open' })
    const run = await connection.client.readRun(id)
    const isFinal = FINAL_STATES.some((state) => state === run.state)
    const approvals = isFinal ? [] : (await connection.client.listApprovals(id)).items
    const egress = await connection.client.readEgress(id).catch(withoutRoute)
    const suffix = serviceSuffix(options)
    if (options.json)
      context.terminal.json({
        ...run,
        approvals,
        ...(egress && { egressDenied: egress.denied }),
        continueWith: continueWith(run, approvals, suffix),
      })
    else {
      const { paint } = context.terminal
      context.terminal.print([
        ...facts(factsOf(run, egress, context), paint),
        ...continueLines(run, approvals, { terminal: context.terminal, suffix }),
      ])
    }
    context.exit(EXIT.ok)
  })
  return command
}
