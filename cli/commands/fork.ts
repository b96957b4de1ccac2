import type { Command } from 'commander'
import type * as z from 'zod'
import type { ForkRunInput } from '../../contracts/api.ts'
import { present } from '../../runtime/kit/present.ts'
import { usageError } from '../cli-error.ts'
import { EXIT_STATUS_HELP } from '../exit-status.ts'
import { type CliContext, newServiceCommand, openConnection, parseOptions } from './command.ts'
import { folderAt } from './folder-at.ts'
import { repositoryAt, SourceOptions, sourceOptions } from './source-options.ts'
import { startOn } from './start-on.ts'
import { afterStart, requireTerminal, StartOptions, startOptions, toStart } from './start-options.ts'

const ForkOptions = StartOptions.extend(SourceOptions)
type ForkOptions = z.infer<typeof ForkOptions>

export function forkCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'fork',
    about:
      'Start a run with the conversation and the files of another run, from its last checkpoint, and follow it. The other run stays as it is.',
    example:
      'agentweaver fork run_0197f6f2… "try it with a cache"\n' +
      'agentweaver fork run_0197f6f2… "do the same here" --git https://github.com/owner/name',
  })
    .argument('<run>', 'id of the run to continue from')
    .argument('<task>', 'what the agent should do next')
    .option(
      '-w, --workspace <dir>',
      'a folder to work on in place of the files of the checkpoint; needed if the other run works on a folder. For a service at a URL, the folder is uploaded',
    )
    .option('--in-place', 'with --workspace: work in the folder itself, not on a copy')
    .addHelpText('after', `\n${EXIT_STATUS_HELP}`)
  startOptions(sourceOptions(command))
  command.action(async (runId: string, task: string) => {
    context.exit(await fork(context, { runId, task }, parseOptions(ForkOptions, command)))
  })
  return command
}

type Forked = { readonly runId: string; readonly task: string }

async function fork(context: CliContext, { runId, task }: Forked, options: ForkOptions): Promise<number> {
  const { terminal } = context
  requireTerminal(terminal, options)
  const workspace = await filesOf(options, terminal.io.cwd)
  await using connection = await openConnection(context, options, {
    whenAbsent: options.detach ? 'require' : 'start',
    workspace: workspace?.kind === 'path' ? workspace.path : undefined,
  })
  const id = await startOn(context, { connection, workspace, options }, (source, signal) =>
    connection.client.forkRun(
      runId,
      { ...toStart(task, options), ...present({ workspace: source }) },
      present({ signal }),
    ),
  )
  return await afterStart(context, { connection, runId: id, options })
}

/** The workspace that replaces the files of the checkpoint. */
async function filesOf(options: ForkOptions, cwd: string): Promise<ForkRunInput['workspace']> {
  if (options.workspace !== undefined && options.git)
    throw usageError('Give either --workspace or --git, not both.')
  return repositoryAt(options) ?? (await folderAt(options, cwd))
}
