import type { Run, WorkspaceSource } from '../../contracts/api.ts'
import { present } from '../../runtime/kit/present.ts'
import { usageError } from '../cli-error.ts'
import type { Connection } from '../service/connect.ts'
import { inFolder } from '../service/folder-refusal.ts'
import type { CliContext } from './command.ts'
import { refuseUploadOptions, type SourceOptions, uploadFolder } from './source-options.ts'

interface StartOn<W> {
  readonly connection: Connection
  readonly workspace: W
  readonly options: SourceOptions & { readonly json: boolean; readonly inPlace: boolean }
}

/** Starts a run on a workspace. A service at a URL may be on another machine, so a folder is uploaded to it. */
export async function startOn<W extends WorkspaceSource | undefined>(
  context: CliContext,
  { connection, workspace, options }: StartOn<W>,
  start: (
    workspace: W | Extract<WorkspaceSource, { kind: 'upload' }>,
    signal?: AbortSignal,
  ) => Promise<Pick<Run, 'id'>>,
): Promise<string> {
  const { terminal } = context
  if (workspace?.kind !== 'path' || connection.isOwn) {
    refuseUploadOptions(options)
    terminal.progress.waitFor('starting the run')
    const path = workspace?.kind === 'path' ? workspace.path : undefined
    return (await inFolder(start(workspace), { connection, path })).id
  }
  if (options.inPlace)
    throw usageError(
      '--in-place works only with your own service on this machine. A service at a URL gets a copy of the folder.',
      'Leave it out.',
    )
  const uploading = { connection, folder: workspace.path, options }
  return uploadFolder(context, uploading, (settings, signal) =>
    start({ kind: 'upload', ...present({ settings }) }, signal),
  )
}
