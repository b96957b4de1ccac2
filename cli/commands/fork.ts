import type { Command } from 'commander'
import { EXIT_STATUS_HELP } from '../exit-status.ts'
import { inFolder } from '../service/folder-refusal.ts'
import { type CliContext, newServiceCommand, openConnection, parseOptions } from './command.ts'
import { folderAt } from './folder-at.ts'
import { afterStart, requireTerminal, StartOptions, startOptions, toStart } from './start-options.ts'

export function forkCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'fork',
    about:
      'Start a run with the conversation and the files of another run, from its last checkpoint, and follow it. The other run stays as it is.',
    example: 'agentweaver fork run_0197f6f2… "try it with a cache"',
  })
    .argument('<run>', 'id of the run to continue from')
    .argument('<task>', 'what the agent should do next')
    .option(
      '-w, --workspace <dir>',
      'a folder to work on in place of the files of the checkpoint; needed if the other run works on a folder',
    )
    .option('--in-place', 'with --workspace: work in the folder itself, not on a copy')
    .addHelpText('after', `\n${EXIT_STATUS_HELP}`)
  startOptions(command)
  command.action(async (runId: string, task: string) => {
    context.exit(await fork(context, { runId, task }, parseOptions(StartOptions, command)))
  })
  return command
}

type Forked = { readonly runId: string; readonly task: string }

async function fork(context: CliContext, { runId, task }: Forked, options: StartOptions): Promise<number> {
  const { terminal } = context
  requireTerminal(terminal, options)
  const folder = await folderAt(options, terminal.io.cwd)
  await using connection = await openConnection(context, options, {
    whenAbsent: options.detach ? 'require' : 'start',
    workspace: folder?.path,
  })
  terminal.progress.waitFor('starting the run')
  const request = { ...toStart(task, options), ...(folder && { workspace: folder }) }
  const { id } = await inFolder(connection.client.forkRun(runId, request), {
    connection,
    path: folder?.path,
    otherwise: 'Leave --workspace out, or upload the files through its API: docs/api.md.',
  })
  return await afterStart(context, { connection, runId: id, options })
}
