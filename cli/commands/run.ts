import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import * as z from 'zod'
import { Plan, REQUESTED_KINDS, type RequestedAgent } from '../../contracts/agents.ts'
import type { StartRunInput, WorkspaceSource } from '../../contracts/api.ts'
import { errnoOf, messageOf } from '../../runtime/kit/errors.ts'
import { problemsOf } from '../../runtime/kit/parse-env.ts'
import { present } from '../../runtime/kit/present.ts'
import { usageError } from '../cli-error.ts'
import { EXIT_STATUS_HELP } from '../exit-status.ts'
import { defaultAgent, nameOf } from '../view/agent-names.ts'
import { type CliContext, newServiceCommand, openConnection, parseOptions } from './command.ts'
import { folderAt } from './folder-at.ts'
import { repositoryAt, SourceOptions, sourceOptions } from './source-options.ts'
import { startOn } from './start-on.ts'
import { afterStart, requireTerminal, StartOptions, startOptions, toStart } from './start-options.ts'

const KINDS = new Map(REQUESTED_KINDS.map((kind) => [nameOf(kind), kind]))
const AGENT_NAMES = [...KINDS.keys()]

const RunOptions = StartOptions.extend({
  emptyWorkspace: z.boolean().default(false),
  from: z.string().optional(),
  ...SourceOptions,
  agent: z
    .enum(AGENT_NAMES, `must be one of ${AGENT_NAMES.join(', ')}`)
    .transform((name) => KINDS.get(name))
    .optional(),
  plan: z.string().optional(),
  model: z.string().min(1).optional(),
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
      'the folder to work on; if it is a git repository, the agent works on a copy. For a service at a URL, the folder is uploaded',
    )
    .option('--in-place', 'work in the folder itself, not on a copy')
    .option('--empty-workspace', 'work in a new, empty folder')
    .option('--from <run>', 'work on the files of the last checkpoint of this run or sandbox, on a copy')
    .option(
      '--agent <kind>',
      `${AGENT_NAMES.join(', ')}; default: scripted with --plan, otherwise the default of "agentweaver models"`,
    )
    .option('--plan <file>', 'JSON file with the steps of a scripted agent')
    .option('--model <name>', 'the model; "agentweaver models" lists those of the service')
    .addHelpText('after', `\n${EXIT_STATUS_HELP}`)
  startOptions(sourceOptions(command))
  command.action(async (task: string) => {
    context.exit(await run(context, task, parseOptions(RunOptions, command)))
  })
  return command
}

async function run(context: CliContext, task: string, options: RunOptions): Promise<number> {
  const { terminal } = context
  requireTerminal(terminal, options)
  const { agent: named, ...unassigned } = await toRequest(task, options, terminal.io)
  await using connection = await openConnection(context, options, {
    whenAbsent: options.detach ? 'require' : 'start',
    workspace: unassigned.workspace.kind === 'path' ? unassigned.workspace.path : undefined,
  })
  const request = { ...unassigned, agent: named ?? (await defaultAgent(connection.client, options)) }
  const { workspace } = request
  const runId = await startOn(context, { connection, workspace, options }, (source, signal) =>
    connection.client.startRun({ ...request, workspace: source }, present({ signal })),
  )
  return await afterStart(context, { connection, runId, options })
}

/** Without an agent if the service chooses it. */
async function toRequest(
  task: string,
  options: RunOptions,
  { cwd }: { cwd: string },
): Promise<Omit<StartRunInput, 'agent'> & { readonly agent: RequestedAgent | undefined }> {
  return {
    ...toStart(task, options),
    workspace: await toWorkspace(options, cwd),
    agent: await toAgent(options, cwd),
  }
}

async function toWorkspace(options: RunOptions, cwd: string): Promise<WorkspaceSource> {
  const { workspace, emptyWorkspace, from, git } = options
  const given = [workspace, emptyWorkspace || undefined, from, git || undefined].filter(
    (one) => one !== undefined,
  )
  if (given.length > 1) throw usageError('Give only one of --workspace, --git, --empty-workspace and --from.')
  const repository = repositoryAt(options)
  if (repository) return repository
  const folder = await folderAt(options, cwd)
  if (folder) return folder
  if (from !== undefined) return { kind: 'run', runId: from }
  if (emptyWorkspace) return { kind: 'empty' }
  throw usageError(
    'Which folder should the agent work in?',
    'Name it with --workspace DIR, or use --git URL, --empty-workspace or --from RUN.',
  )
}

async function toAgent(options: RunOptions, cwd: string): Promise<RequestedAgent | undefined> {
  const kind = options.agent ?? (options.plan === undefined ? undefined : 'scripted')
  if (kind === undefined) return undefined
  if (kind === 'scripted') return { kind, plan: await readPlan(options.plan, cwd) }
  if (options.plan !== undefined) throw usageError(`--plan is for --agent scripted, not ${nameOf(kind)}.`)
  return { kind, ...present({ model: options.model }) }
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
