import { resolve } from 'node:path'
import type { Command } from 'commander'
import * as z from 'zod'
import type { Run } from '../../contracts/api.ts'
import type { RunDiff } from '../../contracts/results.ts'
import { CliError, usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { fetchBranch } from '../results/fetch-branch.ts'
import { gitAt } from '../results/git-at.ts'
import { count, handOffLines } from '../results/result-lines.ts'
import { visible } from '../terminal/visible.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
} from './command.ts'

const FetchOptions = ServiceOptions.extend({ repo: z.string().optional() })

export function fetchCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'fetch',
    about:
      'Fetch the commits of a run into your repository, as the ref refs/agentweaver/RUN. Your files and branches do not change.',
    example: 'agentweaver fetch run_0197f6f2…\ngit diff HEAD...refs/agentweaver/run_0197f6f2…',
  })
    .argument('<run>', 'id of the run or sandbox')
    .option('--repo <dir>', 'the repository (default: the folder that the run worked on)')
  command.action(async (id: string) => {
    const options = parseOptions(FetchOptions, command)
    const { terminal } = context
    await using connection = await openConnection(context, options, { whenAbsent: 'open' })
    const { client } = connection
    const run = await client.readRun(id)
    const diff = await client.readDiff(id)
    const branch = requireBranch(id, diff)
    terminal.progress.waitFor('fetching the commits')
    const folder = folderOf(run, options.repo, terminal.io.cwd)
    const bundle = await client.readBundle(id)
    const { folder: top, ...fetched } = await fetchBranch(terminal.io, { folder, branch, bundle })
    const git = await gitAt(top, terminal.io.cwd)
    terminal.progress.clear()
    if (options.json) terminal.json(fetched)
    else {
      terminal.print(fetched.ref)
      terminal.note(told(diff, fetched.ref, { paint: terminal.notePaint, isKnown: fetched.isKnown, git }))
    }
    context.exit(EXIT.ok)
  })
  return command
}

function requireBranch(id: string, { branch, problems }: RunDiff): NonNullable<RunDiff['branch']> {
  if (branch?.ref === `refs/agentweaver/${id}`) return branch
  const why = problems[0] ?? 'it changed nothing that git tracks'
  throw new CliError(`Run ${id} has no commits to fetch: ${visible(why)}`, {
    status: EXIT.notFound,
    hint: `What it changed: agentweaver diff ${id}`,
  })
}

function folderOf({ workspace }: Run, repo: string | undefined, cwd: string): string {
  if (repo !== undefined) return resolve(cwd, repo)
  if (workspace.kind === 'path') return workspace.path
  throw usageError('Which repository should the commits go into?', 'Name it with --repo DIR.')
}

type Fetched = {
  readonly paint: Parameters<typeof handOffLines>[1]
  readonly isKnown: boolean
  /** How a git command for the repository begins. */
  readonly git: string
}

function told(diff: RunDiff, ref: string, { paint, isKnown, git }: Fetched): string[] {
  const { commits = 0, otherBranches = [] } = diff.branch ?? {}
  return [
    ...handOffLines(diff, paint),
    isKnown
      ? 'The commits were fetched before.'
      : `${count(commits, 'commit')}. No file of yours has changed.`,
    ...(otherBranches.length > 0
      ? [`Other branches of the run, not fetched: ${otherBranches.map(visible).join(', ')}`]
      : []),
    ...(diff.hadUncommittedChanges
      ? [
          'The commits contain your uncommitted changes only in files that the run changed too. Commit or stash those files before you merge.',
        ]
      : []),
    `Review:  ${git} diff HEAD...${ref}`,
    `Merge:   ${git} merge ${ref}`,
    `Discard: ${git} update-ref -d ${ref}`,
  ]
}
