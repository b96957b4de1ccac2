import { Command } from 'commander'
import * as z from 'zod'
import { type CreateSandboxInput, FINAL_STATES, type Run } from '../../contracts/api.ts'
import type { Client } from '../../runtime/client/client.ts'
import { delay } from '../../runtime/kit/deadline.ts'
import { CliError, usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { noteSettings } from '../follow/settings-notes.ts'
import { inFolder } from '../service/folder-refusal.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
  serviceSuffix,
} from './command.ts'
import { execCommand } from './exec.ts'
import { folderPath } from './folder-at.ts'
import { collectPairs } from './pairs.ts'
import { ListOptions, runTable } from './runs.ts'

const READY_TIMEOUT_MS = 120_000
const POLL_MS = 50

const CreateOptions = ServiceOptions.extend({
  workspace: z.string().optional(),
  from: z.string().optional(),
  isolated: z.boolean().default(false),
  label: z.record(z.string(), z.string()).optional(),
})

function createCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'create',
    about: 'Create a sandbox without an agent and print its id.',
    example: 'id=$(agentweaver sandbox create -w .)\nagentweaver sandbox exec $id -- npm test',
  })
    .option('-w, --workspace <dir>', 'the folder to work in (default: a new, empty one)')
    .option('--from <run>', 'begin with the files of the last checkpoint of this run or sandbox')
    .option('--isolated', 'work on a copy of the folder, which must be a git repository')
    .option('--label <key=value>', 'a label; may be repeated', collectPairs)
  command.action(async () => {
    const options = parseOptions(CreateOptions, command)
    const { terminal } = context
    const request = await toRequest(options, terminal.io.cwd)
    await using connection = await openConnection(context, options, {
      whenAbsent: 'require',
      workspace: request.workspace?.kind === 'path' ? request.workspace.path : undefined,
    })
    terminal.progress.waitFor('waiting for a sandbox')
    const { id } = await inFolder(connection.client.createSandbox(request), {
      connection,
      path: request.workspace?.kind === 'path' ? request.workspace.path : undefined,
      otherwise: 'Leave --workspace out, or upload the files through its API: docs/api.md.',
    })
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

/** Prints whether the sandbox works on a copy or in the folder itself. */
function folderLines({ workspace }: Run): string[] {
  if (workspace.kind !== 'path') return []
  return workspace.mode === 'isolated'
    ? [
        'The sandbox works on a copy of the folder. Get its changes with "agentweaver fetch" after "agentweaver sandbox rm".',
      ]
    : ['The sandbox works in the folder itself. The git directory is out of its reach.']
}

/** Waits until the sandbox accepts commands. Throws the sandbox's failure. */
async function untilReady(client: Client, id: string): Promise<Run> {
  const until = Date.now() + READY_TIMEOUT_MS
  while (Date.now() < until) {
    const sandbox = await client.readSandbox(id)
    if (sandbox.state === 'waiting' || sandbox.state === 'running') return sandbox
    if (FINAL_STATES.some((state) => state === sandbox.state)) {
      const why = sandbox.failure?.message ?? `it is ${sandbox.state}`
      throw new CliError(`The sandbox did not start: ${why}`, { status: EXIT.runFailed })
    }
    await delay(POLL_MS)
  }
  throw new CliError(`The sandbox ${id} is still not ready.`, {
    status: EXIT.runFailed,
    hint: `See its state with "agentweaver show ${id}". Remove it with "agentweaver sandbox rm ${id}".`,
  })
}

async function toRequest(
  { workspace, from, isolated, label }: z.infer<typeof CreateOptions>,
  cwd: string,
): Promise<CreateSandboxInput> {
  const labels = label === undefined ? {} : { labels: label }
  if (workspace === undefined && isolated) throw usageError('--isolated needs --workspace DIR.')
  if (workspace !== undefined && from !== undefined)
    throw usageError('Give either --workspace or --from, not both.')
  if (from !== undefined) return { ...labels, workspace: { kind: 'run', runId: from } }
  if (workspace === undefined) return labels
  const path = await folderPath(workspace, cwd)
  return { ...labels, workspace: { kind: 'path', path, ...(isolated && { mode: 'isolated' }) } }
}

function listCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'ls',
    about: 'List your sandboxes, newest first.',
    example: 'agentweaver sandbox ls',
  })
    .option('--limit <n>', 'how many (1 to 200)', '20')
    .option('--after <token>', 'the next page; the previous page prints the token')
  command.action(async () => {
    const options = parseOptions(ListOptions, command)
    const { limit, after } = options
    await using connection = await openConnection(context, options, { whenAbsent: 'open' })
    const page = await connection.client.listSandboxes({ limit, ...(after === undefined ? {} : { after }) })
    if (options.json) context.terminal.json(page)
    else {
      context.terminal.print(runTable(page.items, context, 'WORKSPACE'))
      if (page.next)
        context.terminal.note(`More: agentweaver sandbox ls --limit ${limit} --after ${page.next}`)
    }
    context.exit(EXIT.ok)
  })
  return command
}

function removeCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'rm',
    about: 'Destroy sandboxes and everything in them. A folder that was given with --workspace stays.',
    example: 'agentweaver sandbox rm sbx_0197f6f2…',
  }).argument('<sandbox...>', 'ids of the sandboxes')
  command.action(async (ids: string[]) => {
    const options = parseOptions(ServiceOptions, command)
    const { terminal } = context
    await using connection = await openConnection(context, options)
    for (const id of ids) {
      terminal.progress.waitFor(`destroying ${id}`)
      await connection.client.destroySandbox(id)
      if (options.json) terminal.json({ id, state: 'destroyed' })
      else terminal.print(id)
    }
    context.exit(EXIT.ok)
  })
  return command
}

export function sandboxCommand(context: CliContext): Command {
  return new Command('sandbox')
    .summary('Create, list, use and destroy sandboxes without an agent')
    .description('Create, list, use and destroy sandboxes without an agent.')
    .addCommand(createCommand(context))
    .addCommand(listCommand(context))
    .addCommand(execCommand(context))
    .addCommand(removeCommand(context))
}
