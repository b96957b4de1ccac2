import { resolve } from 'node:path'
import type { Command } from 'commander'
import * as z from 'zod'
import type { StartRunInput } from '../../contracts/api.ts'
import { BUDGET_KINDS, Budgets } from '../../contracts/budgets.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { present } from '../../runtime/kit/present.ts'
import { usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { exitStatusOfEnding, followRun } from '../follow/follow-run.ts'
import type { Gate, GateAnswer } from '../follow/gates.ts'
import { createPresenter } from '../follow/presenter.ts'
import { noteSettings } from '../follow/settings-notes.ts'
import { resultLines } from '../results/result-lines.ts'
import type { Connection } from '../service/connect.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { type CliContext, ServiceOptions, serviceSuffix } from './command.ts'
import { NetworkOptions, networkOptions, policyOf } from './network-options.ts'
import { collectLimits, collectPairs } from './pairs.ts'

/** Options of every command that starts a run. */
export const StartOptions = ServiceOptions.extend({
  workspace: z.string().optional(),
  inPlace: z.boolean().default(false),
  label: z.record(z.string(), z.string()).optional(),
  budget: Budgets.optional(),
  ...NetworkOptions,
  allowNoOutcome: z.boolean().default(false),
  yes: z.boolean().default(false),
  interactive: z.boolean().default(false),
  detach: z.boolean().default(false),
})
export type StartOptions = z.infer<typeof StartOptions>

/** Adds the options that do not choose the workspace and the agent. */
export const startOptions = (command: Command): Command =>
  networkOptions(command)
    .option('--label <key=value>', 'a label; may be repeated', collectPairs)
    .option(
      '--allow-no-outcome',
      'accept a run whose last turn ended without report_outcome; otherwise it fails, unless its agent is scripted',
    )
    .option(
      '--budget <kind=limit>',
      `a limit after which the run fails: ${BUDGET_KINDS.join(', ')}; may be repeated`,
      collectLimits,
    )
    .option('-y, --yes', 'approve every request of the run without asking')
    .option('-i, --interactive', 'keep the run open and ask for the next prompt after each turn')
    .option('-d, --detach', 'start the run, print its id and return')

export function requireTerminal({ isInteractive }: Terminal, options: StartOptions): void {
  if (options.interactive && !isInteractive && !options.detach)
    throw usageError('--interactive needs a terminal to ask at.', 'Use --detach and "agentweaver turn".')
}

/** The fields of the request that follow from these options. */
export const toStart = (
  task: string,
  { interactive, budget, network, egressHost, setup, allowNoOutcome, label }: StartOptions,
): Pick<StartRunInput, 'task' | 'interactive' | 'budgets' | 'policy' | 'requireOutcome' | 'labels'> => ({
  task,
  interactive,
  ...(budget === undefined ? {} : { budgets: budget }),
  ...policyOf({ network, egressHost, setup }),
  ...(allowNoOutcome && { requireOutcome: false }),
  ...(label === undefined ? {} : { labels: label }),
})

type Started = {
  readonly connection: Connection
  readonly runId: string
  readonly options: StartOptions
}

/** Prints the id of a new run, or follows the run to its end. Returns the exit status. */
export async function afterStart(context: CliContext, started: Started): Promise<number> {
  const { terminal } = context
  const { connection, runId: id, options } = started
  if (options.detach) {
    if (options.json) terminal.json({ id })
    else terminal.print(id)
    await noteSettings(terminal, connection.client, { runId: id, suffix: serviceSuffix(options) })
    return EXIT.ok
  }
  terminal.note(terminal.notePaint.dim(id))
  return follow(context, started)
}

async function follow({ terminal }: CliContext, { connection, runId, options }: Started): Promise<number> {
  const ending = await followRun({
    terminal,
    client: connection.client,
    runId,
    show: createPresenter(terminal, { json: options.json, suffix: serviceSuffix(options) }),
    decide: options.yes ? approve : () => 'ask',
    onInterrupt: 'ask',
    asksForTurns: options.interactive,
    isEmbedded: connection.isEmbedded,
    suffix: serviceSuffix(options),
  })
  if (ending.kind === 'done' && !options.json) await tellResults({ terminal }, { connection, runId, options })
  return exitStatusOfEnding(ending)
}

/** Prints the results last, so that they are not scrolled away: the changes, and the hand-off files. */
async function tellResults(
  { terminal }: Pick<CliContext, 'terminal'>,
  { connection, runId, options }: Started,
): Promise<void> {
  const { client, isEmbedded } = connection
  const run = await client.readRun(runId)
  if (!['path', 'git', 'upload'].includes(run.workspace.kind)) return
  const diff = await client.readDiff(runId).catch(noResults)
  if (!diff) return
  const suffix = isEmbedded ? '' : serviceSuffix(options)
  const folder = run.workspace.kind === 'upload' ? uploadedFrom(options, terminal.io.cwd) : undefined
  terminal.note(resultLines(diff, { run, suffix, isEmbedded, ...present({ folder }) }, terminal.notePaint))
}

/** The folder that was uploaded, for commands that are run in another one. */
function uploadedFrom({ workspace }: StartOptions, cwd: string): string | undefined {
  const folder = workspace === undefined ? undefined : resolve(cwd, workspace)
  return folder === cwd ? undefined : folder
}

/** A run that never got a sandbox has no results. */
function noResults(error: unknown): undefined {
  if (error instanceof SandboxError && error.code === 'not_found') return undefined
  throw error
}

/** `--yes` approves requests. Questions still need a person. */
const approve = (gate: Gate): 'ask' | GateAnswer =>
  gate.type === 'agent.question_asked' ? 'ask' : { kind: 'approve', scope: 'once' }
