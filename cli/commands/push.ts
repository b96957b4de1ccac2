import type { Command } from 'commander'
import * as z from 'zod'
import type { Run } from '../../contracts/api.ts'
import { PushResults } from '../../contracts/push.ts'
import type { RunDiff } from '../../contracts/results.ts'
import { CliError, usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { changeWords, count, executedLines, remarkLines } from '../results/result-lines.ts'
import type { Paint } from '../terminal/paint.ts'
import { ask } from '../terminal/prompt.ts'
import { visible } from '../terminal/visible.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
} from './command.ts'

const PushOptions = ServiceOptions.extend({ branch: z.string(), yes: z.boolean().default(false) })

export function pushCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'push',
    about:
      'Push the commits of a run on a repository to the branch agentweaver/RUN/NAME of the repository. The service pushes with ' +
      'its credential, from a fresh sandbox. Uncommitted changes of the run are the last commit.',
    example: 'agentweaver diff run_0197f6f2…\nagentweaver push run_0197f6f2… --branch fix-login',
  })
    .argument('<run>', 'id of the run or sandbox')
    .requiredOption('--branch <name>', 'name of the branch below agentweaver/RUN/')
    .option('-y, --yes', 'push without asking')
  command.action(async (id: string) => {
    const { branch, ...options } = parseOptions(PushOptions, command)
    const { terminal } = context
    const wanted = wantedOf(branch)
    await using connection = await openConnection(context, options, { whenAbsent: 'open' })
    const { client } = connection
    const run = await client.readRun(id)
    if (run.workspace.kind !== 'git')
      throw usageError(`${id} did not start from the URL of a repository, so there is no server to push to.`)
    const diff = await client.readDiff(id)
    terminal.note(aboutPush({ run, diff, branch }, terminal.notePaint))
    if (!options.yes) await confirm(context)
    terminal.progress.waitFor('pushing from a fresh sandbox')
    const pushed = await client.pushResults(id, wanted)
    terminal.progress.clear()
    if (options.json) terminal.json(pushed)
    else terminal.print(`${pushed.branch}  ${pushed.commit}`)
    context.exit(EXIT.ok)
  })
  return command
}

function wantedOf(branch: string): PushResults {
  const parsed = PushResults.safeParse({ branch })
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw usageError(`The name of the branch ${visible(JSON.stringify(branch))}: ${issue?.message}.`)
}

const MAX_SHOWN = 50
/** An agent can put something into one commit and remove it in the next one. */
const historyLine = (id: string) =>
  `The push contains every commit; the files above are what the last one changes against the base. See all: agentweaver fetch ${id} --repo DIR`

interface About {
  readonly run: Run
  readonly diff: RunDiff
  readonly branch: string
}

/** What a person should know first: the files that run code, all files, and what the push can start. */
function aboutPush({ run: { id, workspace }, diff, branch }: About, paint: Paint): string[] {
  const repository = workspace.kind === 'git' ? workspace.url : 'the repository'
  const executed = new Set(diff.handOff.map(({ path }) => path))
  const others = diff.files.filter(({ path }) => !executed.has(path)).map(({ path }) => path)
  const left = diff.fileCount - diff.files.length + Math.max(0, others.length - MAX_SHOWN)
  const commits = diff.branch ? `${count(diff.branch.commits, 'commit')}. ` : ''
  return [
    ...executedLines(diff, paint),
    ...(others.length > 0 ? ['Changed files:'] : []),
    ...others.slice(0, MAX_SHOWN).map((path) => `  ${visible(path)}`),
    ...(left > 0 ? [paint.dim(`  … ${left} more`)] : []),
    `${commits}${changeWords(diff)}. See them: agentweaver diff ${id}`,
    ...(diff.branch && diff.branch.commits > 1 ? [historyLine(id)] : []),
    ...remarkLines(diff),
    paint.yellow(
      `The push to agentweaver/${id}/${branch} can run the CI of ${visible(repository)} with the secrets of the repository.`,
    ),
  ]
}

async function confirm({ terminal }: CliContext): Promise<void> {
  if (!terminal.isInteractive) throw usageError('There is no terminal to ask at. To push, add --yes.')
  const stop = new AbortController()
  const answer = await ask(terminal, {
    text: 'Push? [y/N] ',
    signal: stop.signal,
    onInterrupt: () => stop.abort(),
  })
  if (stop.signal.aborted)
    throw new CliError('Interrupted: nothing was pushed.', { status: EXIT.interrupted })
  if (!/^y(?:es)?$/i.test(answer?.trim() ?? ''))
    throw new CliError('Nothing was pushed.', { status: EXIT.refused })
}
