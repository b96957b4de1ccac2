import type { Command } from 'commander'
import * as z from 'zod'
import type { CreateSandboxInput, Run } from '../../contracts/api.ts'
import { present } from '../../runtime/kit/present.ts'
import { usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { noteSettings } from '../follow/settings-notes.ts'
import type { Connection } from '../service/connect.ts'
import { inFolder } from '../service/folder-refusal.ts'
import { untilReady } from '../service/ready-sandbox.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
  serviceSuffix,
} from './command.ts'
import { folderPath } from './folder-at.ts'
import { NetworkOptions, networkOptions, policyOf } from './network-options.ts'
import { collectPairs } from './pairs.ts'
import {
  refuseUploadOptions,
  repositoryAt,
  SourceOptions,
  sourceOptions,
  uploadFolder,
} from './source-options.ts'

const CreateOptions = ServiceOptions.extend({
  workspace: z.string().optional(),
  from: z.string().optional(),
  isolated: z.boolean().default(false),
  label: z.record(z.string(), z.string()).optional(),
  ...SourceOptions,
  ...NetworkOptions,
})
type CreateOptions = z.infer<typeof CreateOptions>

export function createCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'create',
    about: 'Create a sandbox without an agent and print its id.',
    example: 'id=$(agentweaver sandbox create -w .)\nagentweaver sandbox exec $id -- npm test',
  })
    .option(
      '-w, --workspace <dir>',
      'the folder to work in (default: a new, empty one). For a service at a URL, the folder is uploaded',
    )
    .option('--from <run>', 'begin with the files of the last checkpoint of this run or sandbox')
    .option('--isolated', 'work on a copy of the folder, which must be a git repository')
    .option('--label <key=value>', 'a label; may be repeated', collectPairs)
  networkOptions(sourceOptions(command))
  command.action(async () => {
    const options = parseOptions(CreateOptions, command)
    const { terminal } = context
    const request = await toRequest(options, terminal.io.cwd)
    await using connection = await openConnection(context, options, {
      whenAbsent: 'require',
      workspace: request.workspace?.kind === 'path' ? request.workspace.path : undefined,
    })
    const id = await create(context, { connection, request, options })
    terminal.progress.waitFor('waiting for a sandbox')
    const sandbox = await untilReady(connection.client, id)
    if (options.json) terminal.json(sandbox)
    else {
      terminal.note(folderLines(sandbox).map(terminal.notePaint.dim))
      terminal.print(sandbox.id)
    }
    await noteSettings(terminal, connection.client, { runId: id, suffix: serviceSuffix(options) })
    context.exit(EXIT.ok)
  })
  return command
}

type Creating = {
  readonly connection: Connection
  readonly request: CreateSandboxInput
  readonly options: CreateOptions
}

async function create(context: CliContext, { connection, request, options }: Creating): Promise<string> {
  const { client, isOwn } = connection
  const { workspace } = request
  if (workspace?.kind !== 'path' || isOwn) {
    refuseUploadOptions(options)
    const path = workspace?.kind === 'path' ? workspace.path : undefined
    context.terminal.progress.waitFor('creating the sandbox')
    return (await inFolder(client.createSandbox(request), { connection, path })).id
  }
  if (options.isolated)
    throw usageError(
      '--isolated works only with your own service on this machine. A service at a URL gets a copy of the folder.',
      'Leave it out.',
    )
  const uploading = { connection, folder: workspace.path, options }
  return uploadFolder(context, uploading, (settings, signal) =>
    client.createSandbox({ ...request, workspace: { kind: 'upload', ...present({ settings }) } }, { signal }),
  )
}

/** Prints whether the sandbox works on a copy or in the folder itself. */
function folderLines({ workspace }: Run): string[] {
  if (workspace.kind !== 'path') return []
  return workspace.mode === 'isolated'
    ? [
        'The sandbox works on a copy of the folder. Get its changes with "agentweaver fetch" after "agentweaver sandbox rm".',
      ]
    : ['The sandbox works in the folder itself. The git directory is out of its reach.']
}

async function toRequest(options: CreateOptions, cwd: string): Promise<CreateSandboxInput> {
  const { workspace, from, isolated, label, git } = options
  if (workspace === undefined && isolated) throw usageError('--isolated needs --workspace DIR.')
  if ([workspace, from, git || undefined].filter((one) => one !== undefined).length > 1)
    throw usageError('Give only one of --workspace, --git and --from.')
  const common = { ...policyOf(options), ...present({ labels: label }) }
  const repository = repositoryAt(options)
  if (repository) return { ...common, workspace: repository }
  if (from !== undefined) return { ...common, workspace: { kind: 'run', runId: from } }
  if (workspace === undefined) return common
  const path = await folderPath(workspace, cwd)
  return { ...common, workspace: { kind: 'path', path, ...(isolated && { mode: 'isolated' }) } }
}
