import { readFile, stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import * as z from 'zod'
import { Plan, REQUESTED_KINDS, type RequestedAgent } from '../../contracts/agents.ts'
import type { StartRunInput, WorkspaceSource } from '../../contracts/api.ts'
import { BUDGET_KINDS, Budgets } from '../../contracts/budgets.ts'
import { errnoOf, messageOf, SandboxError } from '../../runtime/kit/errors.ts'
import { type EnvSource, problemsOf } from '../../runtime/kit/parse-env.ts'
import { usageError } from '../cli-error.ts'
import { EXIT, EXIT_STATUS_HELP } from '../exit-status.ts'
import { exitStatusOfEnding, followRun } from '../follow/follow-run.ts'
import type { Gate, GateAnswer } from '../follow/gates.ts'
import { createPresenter } from '../follow/presenter.ts'
import { noteSettings } from '../follow/settings-notes.ts'
import { resultLines } from '../results/result-lines.ts'
import type { Connection } from '../service/connect.ts'
import { inFolder } from '../service/folder-refusal.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
  serviceSuffix,
} from './command.ts'
import { collectLimits, collectPairs } from './pairs.ts'

type Kind = RequestedAgent['kind']

/** Kinds with a shorter name on the command line. */
const SHORT_NAMES: Partial<Record<Kind, string>> = { openaiCompatible: 'openai' }
const nameOf = (kind: Kind): string => SHORT_NAMES[kind] ?? kind
const KINDS = new Map(REQUESTED_KINDS.map((kind) => [nameOf(kind), kind]))
const AGENT_NAMES = [...KINDS.keys()]

const RunOptions = ServiceOptions.extend({
  workspace: z.string().optional(),
  emptyWorkspace: z.boolean().default(false),
  inPlace: z.boolean().default(false),
  agent: z
    .enum(AGENT_NAMES, `must be one of ${AGENT_NAMES.join(', ')}`)
    .transform((name) => KINDS.get(name))
    .optional(),
  plan: z.string().optional(),
  model: z.string().min(1).optional(),
  label: z.record(z.string(), z.string()).optional(),
  budget: Budgets.optional(),
  network: z.boolean().optional(),
  allowNoOutcome: z.boolean().default(false),
  yes: z.boolean().default(false),
  interactive: z.boolean().default(false),
  detach: z.boolean().default(false),
})
type RunOptions = z.infer<typeof RunOptions>

export function runCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'run',
    about:
      'Start a run and follow it to its end. If no service is running, the command starts one for the time of the run.',
    example: 'agentweaver run "fix the failing test" --workspace . --agent openai --model gpt-5',
  })
    .argument('<task>', 'what the agent should do')
    .option(
      '-w, --workspace <dir>',
      'the folder to work on; if it is a git repository, the agent works on a copy',
    )
    .option('--in-place', 'work in the folder itself, not on a copy')
    .option('--empty-workspace', 'work in a new, empty folder')
    .option(
      '--agent <kind>',
      `${AGENT_NAMES.join(', ')}; default: scripted with --plan, openai if OPENAI_BASE_URL is set, otherwise copilot`,
    )
    .option('--plan <file>', 'JSON file with the steps of a scripted agent')
    .option(
      '--model <name>',
      'the model; with --agent openai, a model of the endpoint in OPENAI_BASE_URL of the service',
    )
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
    .option('--network', 'require that commands have network access, to the destinations of the egress list')
    .option('--no-network', 'no network access for commands, even if the settings allow it')
    .option('-y, --yes', 'approve every request of the run without asking')
    .option('-i, --interactive', 'keep the run open and ask for the next prompt after each turn')
    .option('-d, --detach', 'start the run, print its id and return')
    .addHelpText('after', `\n${EXIT_STATUS_HELP}`)
  command.action(async (task: string) => {
    context.exit(await run(context, task, parseOptions(RunOptions, command)))
  })
  return command
}

async function run(context: CliContext, task: string, options: RunOptions): Promise<number> {
  const { terminal } = context
  if (options.interactive && !terminal.isInteractive && !options.detach)
    throw usageError('--interactive needs a terminal to ask at.', 'Use --detach and "agentweaver turn".')
  const request = await toRequest(task, options, terminal.io)
  await using connection = await openConnection(context, options, {
    whenAbsent: options.detach ? 'require' : 'start',
    workspace: request.workspace.kind === 'path' ? request.workspace.path : undefined,
  })
  terminal.progress.waitFor('starting the run')
  const { id } = await inFolder(connection.client.startRun(request), {
    connection,
    path: request.workspace.kind === 'path' ? request.workspace.path : undefined,
    otherwise: 'Begin with --empty-workspace, or upload the files through its API: docs/api.md.',
  })
  if (options.detach) {
    if (options.json) terminal.json({ id })
    else terminal.print(id)
    await noteSettings(terminal, connection.client, { runId: id, suffix: serviceSuffix(options) })
    return EXIT.ok
  }
  terminal.note(terminal.notePaint.dim(id))
  return await follow(context, { connection, runId: id, options })
}

async function follow(
  { terminal }: CliContext,
  { connection, runId, options }: { connection: Connection; runId: string; options: RunOptions },
): Promise<number> {
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
  { connection, runId, options }: { connection: Connection; runId: string; options: RunOptions },
): Promise<void> {
  const { client, isEmbedded } = connection
  const run = await client.readRun(runId)
  if (run.workspace.kind !== 'path') return
  const diff = await client.readDiff(runId).catch(noResults)
  if (!diff) return
  const suffix = isEmbedded ? '' : serviceSuffix(options)
  terminal.note(resultLines(diff, { run, suffix, isEmbedded }, terminal.notePaint))
}

/** A run that never got a sandbox has no results. */
function noResults(error: unknown): undefined {
  if (error instanceof SandboxError && error.code === 'not_found') return undefined
  throw error
}

/** `--yes` approves requests. Questions still need a person. */
const approve = (gate: Gate): 'ask' | GateAnswer =>
  gate.type === 'agent.question_asked' ? 'ask' : { kind: 'approve', scope: 'once' }

async function toRequest(
  task: string,
  options: RunOptions,
  { cwd, env }: { cwd: string; env: EnvSource },
): Promise<StartRunInput> {
  return {
    task,
    workspace: await toWorkspace(options, cwd),
    agent: await toAgent(options, { cwd, env }),
    interactive: options.interactive,
    ...(options.budget === undefined ? {} : { budgets: options.budget }),
    ...(options.network === undefined ? {} : { policy: { network_enabled: options.network } }),
    ...(options.allowNoOutcome && { requireOutcome: false }),
    ...(options.label === undefined ? {} : { labels: options.label }),
  }
}

async function toWorkspace(options: RunOptions, cwd: string): Promise<WorkspaceSource> {
  if (options.emptyWorkspace) return emptyWorkspace(options)
  if (options.workspace === undefined)
    throw usageError(
      'Which folder should the agent work in?',
      'Name it with --workspace DIR, or --empty-workspace.',
    )
  const path = resolve(cwd, options.workspace)
  try {
    if ((await stat(path)).isDirectory())
      return { kind: 'path', path, ...(options.inPlace && { mode: 'in-place' }) }
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw usageError(`The workspace cannot be used: ${messageOf(error)}`)
  }
  throw usageError(`The workspace is not a folder: ${path}`)
}

function emptyWorkspace({ workspace, inPlace }: RunOptions): WorkspaceSource {
  if (workspace !== undefined) throw usageError('Give either --workspace or --empty-workspace, not both.')
  if (inPlace) throw usageError('--in-place is for a folder: give it with --workspace DIR.')
  return { kind: 'empty' }
}

async function toAgent(options: RunOptions, from: { cwd: string; env: EnvSource }): Promise<RequestedAgent> {
  const kind = options.agent ?? defaultAgent(options, from.env)
  if (kind === 'scripted') return { kind, plan: await readPlan(options.plan, from.cwd) }
  if (options.plan !== undefined) throw usageError(`--plan is for --agent scripted, not ${nameOf(kind)}.`)
  const model = options.model === undefined ? {} : { model: options.model }
  return { kind, ...model }
}

function defaultAgent(options: RunOptions, env: EnvSource): Kind {
  if (options.plan !== undefined) return 'scripted'
  return env['OPENAI_BASE_URL'] ? 'openaiCompatible' : 'copilot'
}

/** A JSON error says where the syntax is wrong. For a missing file, the system's message would only repeat the path. */
function whyUnread(error: unknown): string {
  if (error instanceof SyntaxError) return `it is not JSON. ${error.message}`
  return errnoOf(error) === 'ENOENT' ? 'the file does not exist.' : messageOf(error)
}

async function readPlan(file: string | undefined, cwd: string): Promise<Plan> {
  if (file === undefined) throw usageError('A scripted agent needs its steps.', 'Name them with --plan FILE.')
  let json: unknown
  try {
    json = JSON.parse(await readFile(resolve(cwd, file), 'utf8'))
  } catch (error) {
    throw usageError(`The plan ${file} cannot be read: ${whyUnread(error)}`)
  }
  const parsed = Plan.safeParse(json)
  if (parsed.success) return parsed.data
  throw usageError(`The plan ${file} has problems:\n${problemsOf(parsed.error)}`)
}
