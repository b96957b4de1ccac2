import type { Command } from 'commander'
import { FINAL_STATES, type Run } from '../../contracts/api.ts'
import type { Client } from '../../runtime/client/client.ts'
import { FileFault } from '../../runtime/workspace/file-fault.ts'
import { openWorkspace, type WorkspaceEngine } from '../../runtime/workspace/open-workspace.ts'
import { CliError, usageError } from '../cli-error.ts'
import { type Copied, copiedLines, showProgress, sizeWords } from '../copy/copied.ts'
import { download } from '../copy/download.ts'
import {
  type LocalPath,
  type LocalPlace,
  localPlace,
  parseOperand,
  type RemotePath,
} from '../copy/operand.ts'
import { createRemoteFiles } from '../copy/remote-files.ts'
import { upload } from '../copy/upload.ts'
import { EXIT } from '../exit-status.ts'
import { count } from '../results/result-lines.ts'
import { onInterrupt } from '../terminal/interrupts.ts'
import { visible } from '../terminal/visible.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
} from './command.ts'

const RULES = `
Into a folder that exists, the file or folder is copied under its own name; otherwise it
gets the new name. RUN:. is the whole workspace. Existing files are replaced, each at once.
Links and git's own files are not copied. Set-user-ID bits are dropped.`

export function cpCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'cp',
    about: 'Copy a file or a folder out of a run that has a sandbox, or into it.',
    example: 'agentweaver cp sbx_0197f6f2…:dist/report.html .\nagentweaver cp ./fixtures sbx_0197f6f2…:test/',
  })
    .argument('<from>', 'RUN:PATH, or a path on this machine')
    .argument('<to>', 'a path on this machine, or RUN:PATH')
    .addHelpText('after', RULES)
  command.action(async (from: string, to: string) => {
    const options = parseOptions(ServiceOptions, command)
    const { terminal } = context
    const copy = directionOf(from, to)
    await using connection = await openConnection(context, options)
    await requireSandbox(connection.client, copy.remote.id)
    const stop = new AbortController()
    using _interrupts = onInterrupt(() =>
      stop.abort(
        new CliError('Interrupted. Files that were complete are copied.', { status: EXIT.interrupted }),
      ),
    )
    const copied = await carryOut(context, connection.client, { ...copy, signal: stop.signal })
    terminal.progress.clear()
    const whole: Copied = { from, to, ...copied }
    if (options.json) terminal.json(whole)
    else {
      terminal.print(`${count(whole.files, 'file')}, ${sizeWords(whole.bytes)}`)
      terminal.note(copiedLines(whole, terminal))
    }
    context.exit(EXIT.ok)
  })
  return command
}

type Copy = {
  readonly remote: RemotePath
  readonly local: LocalPath
  readonly isDownload: boolean
  /** Whether the person wrote a slash at the end of the target. */
  readonly isFolder: boolean
}

function directionOf(from: string, to: string): Copy {
  const [source, target] = [parseOperand(from), parseOperand(to)]
  const isFolder = to.endsWith('/')
  if (source.kind === 'remote' && target.kind === 'local')
    return { remote: source, local: target, isDownload: true, isFolder }
  if (source.kind === 'local' && target.kind === 'remote')
    return { remote: target, local: source, isDownload: false, isFolder }
  throw source.kind === 'remote'
    ? usageError('One of the two must be on this machine. Copy to a file here first.')
    : usageError('Which run? Write its side as RUN:PATH, such as sbx_0197f6f2…:dist/app.js.')
}

function filesHint({ id, workspace }: Run): string {
  if (workspace.kind !== 'path') return `All its files: agentweaver pull ${id}.`
  return workspace.mode === 'in-place'
    ? `Its files are in the folder ${visible(workspace.path)} of the service's machine.`
    : `Its commits: agentweaver fetch ${id}.`
}

async function requireSandbox(client: Client, id: string): Promise<void> {
  const run = await client.readRun(id)
  if (!FINAL_STATES.some((state) => state === run.state)) return
  throw new CliError(`Run ${id} has ended, and its sandbox is gone.`, {
    status: EXIT.refused,
    hint: `What it changed: agentweaver diff ${id}. ${filesHint(run)}`,
  })
}

async function carryOut(
  { terminal }: CliContext,
  client: Client,
  { remote: { id, path }, local, isDownload, isFolder, signal }: Copy & { readonly signal: AbortSignal },
): Promise<Omit<Copied, 'from' | 'to'>> {
  const remote = createRemoteFiles(client, id, signal)
  const place = localPlace(local.path, terminal.io.cwd)
  const onStart = (files: number) => showProgress(terminal, files)
  terminal.progress.waitFor('listing the files')
  return inWorkspace(place, (workspace) =>
    isDownload
      ? download({ remote, path }, { workspace, path: place.names, isFolder }, onStart)
      : upload({ workspace, path: place.names }, { remote, path, isFolder }, onStart),
  )
}

async function inWorkspace<T>(
  { root, shown }: LocalPlace,
  work: (workspace: WorkspaceEngine) => Promise<T>,
): Promise<T> {
  let workspace: WorkspaceEngine | undefined
  try {
    workspace = await openWorkspace(root)
    return await work(workspace)
  } catch (error) {
    if (!(error instanceof FileFault)) throw error
    throw new CliError(`${visible(shown)}: ${visible(error.message)}.`, {
      status: EXIT.refused,
      cause: error,
    })
  } finally {
    workspace?.close()
  }
}
