import { resolve } from 'node:path'
import type { Command } from 'commander'
import * as z from 'zod'
import type { Run } from '../../contracts/api.ts'
import type { RunDiff } from '../../contracts/results.ts'
import type { Client } from '../../runtime/client/client.ts'
import { isGitName } from '../../runtime/workspace/git/git-names.ts'
import { usageError } from '../cli-error.ts'
import { EXIT, type ExitStatus } from '../exit-status.ts'
import type { Contents } from '../results/apply-changes.ts'
import type { Plan } from '../results/plan-changes.ts'
import { count } from '../results/result-lines.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { visible } from '../terminal/visible.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
} from './command.ts'
import { folderPath } from './folder-at.ts'

const ApplyOptions = ServiceOptions.extend({ includeHandoff: z.boolean().default(false) })
type ApplyOptions = z.infer<typeof ApplyOptions>

/** Of all changed files together. They are in memory until they are written. */
const MAX_BYTES = 268_435_456
const MAX_SHOWN = 20

export function applyCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'apply',
    about:
      'Write the changes of a run on an uploaded folder into your folder. If you changed one of the files too, nothing is written.',
    example: 'agentweaver apply run_0197f6f2… ~/project',
  })
    .argument('<run>', 'id of the run or sandbox')
    .argument('[dir]', 'your folder (default: the current one)')
    .option('--include-handoff', 'also write files that your tools execute or obey; review them first')
  command.action(async (id: string, dir: string | undefined) => {
    const options = parseOptions(ApplyOptions, command)
    const { terminal } = context
    const folder = await folderPath(dir ?? '.', terminal.io.cwd)
    refuseGitFolder(folder)
    await using connection = await openConnection(context, options, { whenAbsent: 'open' })
    const { client } = connection
    requireUpload(await client.readRun(id))
    terminal.progress.waitFor('comparing the files')
    const diff = await client.readDiff(id)
    const plan = await apply({ client, id, folder, diff, options })
    terminal.progress.clear()
    context.exit(tell(terminal, plan, { options, id }))
  })
  return command
}

function refuseGitFolder(folder: string): void {
  if (resolve(folder).split('/').some(isGitName))
    throw usageError(`${folder} is in a git directory. Name the folder that was uploaded.`)
}

function insteadOfApply(id: string, workspace: Run['workspace']): string {
  if (workspace.kind !== 'path')
    return `Get its changes with "agentweaver fetch ${id}" or "agentweaver pull ${id}".`
  return workspace.mode === 'in-place'
    ? 'Its changes are in the folder already.'
    : `Get its changes with "agentweaver fetch ${id}".`
}

function requireUpload({ id, workspace }: Run): void {
  if (workspace.kind === 'upload') return
  throw usageError(`Run ${id} does not work on an uploaded folder.`, insteadOfApply(id, workspace))
}

type Applying = {
  readonly client: Client
  readonly id: string
  readonly folder: string
  readonly diff: RunDiff
  readonly options: ApplyOptions
}

/** Writes only if there is no conflict. */
async function apply({ client, id, folder, diff, options }: Applying): Promise<Plan> {
  const [{ openWorkspace }, { planChanges }, { applyChanges, verifyContents }] = await Promise.all([
    import('../../runtime/workspace/open-workspace.ts'),
    import('../results/plan-changes.ts'),
    import('../results/apply-changes.ts'),
  ])
  const workspace = await openWorkspace(folder)
  try {
    const plan = await planChanges(workspace, diff, { includeHandOff: options.includeHandoff })
    if (plan.conflicts.length > 0 || plan.overlapping.length > 0) return plan
    const contents = await download(client, id, plan)
    verifyContents(plan.changes, contents)
    await applyChanges(workspace, plan.changes, contents)
    return plan
  } finally {
    workspace.close()
  }
}

async function download(client: Client, id: string, { changes }: Plan): Promise<Contents> {
  const wanted = new Set(changes.flatMap(({ path, after }) => (after ? [path.text] : [])))
  const bytes = changes.reduce((sum, { after }) => sum + (after?.size ?? 0), 0)
  if (bytes > MAX_BYTES)
    throw usageError(
      'The changed files are too large to be applied together.',
      `Use "agentweaver pull ${id}".`,
    )
  if (wanted.size === 0) return new Map()
  const { contentsOf } = await import('../../runtime/workspace/archive/archive-files.ts')
  return contentsOf(await client.downloadWorkspace(id), { wanted, maxBytes: MAX_BYTES })
}

type Told = { readonly options: ApplyOptions; readonly id: string }

function tell(terminal: Terminal, plan: Plan, { options, id }: Told): ExitStatus {
  const { changes, conflicts, overlapping, handOff, links, unchanged } = plan
  const isMerged = conflicts.length === 0 && overlapping.length === 0
  const result = isMerged ? 'merged' : conflicts.length > 0 ? 'conflict' : 'overlapping'
  const status = isMerged ? EXIT.ok : EXIT.refused
  if (options.json) {
    const paths = isMerged ? changes.map(({ path }) => path.text) : [...conflicts, ...overlapping]
    terminal.json({ result, paths, handOff, links, unchanged })
    return status
  }
  terminal.print(result)
  if (!isMerged) {
    terminal.note([
      ...named('You changed these files too:', conflicts),
      ...named('Something of yours is where the run adds these files:', overlapping),
      'Nothing was changed.',
      `Compare with the files of the run: agentweaver pull ${id} NEW-FOLDER`,
    ])
    return status
  }
  const deleted = changes.filter(({ after }) => !after).length
  terminal.note([
    `${count(changes.length - deleted, 'file')} written, ${deleted.toLocaleString('en')} deleted.`,
    ...named('Left out, because your tools execute or obey them:', handOff),
    ...(handOff.length > 0 ? ['Review them with "agentweaver diff". To write them: --include-handoff'] : []),
    ...named('Left out, because they are links:', links),
  ])
  return status
}

function named(title: string, paths: readonly string[]): string[] {
  if (paths.length === 0) return []
  const left = paths.length - MAX_SHOWN
  return [
    title,
    ...paths.slice(0, MAX_SHOWN).map((path) => `  ${visible(path)}`),
    ...(left > 0 ? [`  … ${left} more`] : []),
  ]
}
