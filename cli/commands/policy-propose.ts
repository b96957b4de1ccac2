import { realpath } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import * as z from 'zod'
import { type SandboxSettingsPatch, SETTINGS_FILE } from '../../contracts/policy.ts'
import type { PolicyProposal } from '../../contracts/policy-proposal.ts'
import type { Client } from '../../runtime/client/client.ts'
import { findEnclosingGit, findGit, type Repository } from '../../runtime/git/find-git.ts'
import { messageOf } from '../../runtime/kit/errors.ts'
import { present } from '../../runtime/kit/present.ts'
import { openWorkspace } from '../../runtime/workspace/open-workspace.ts'
import { parsePath } from '../../runtime/workspace/parse-path.ts'
import { CliError, usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { withBranchStart } from '../results/commit-file.ts'
import { gitAt, gitIn } from '../results/git-at.ts'
import { readLocal } from '../results/local-file.ts'
import { quoteWord } from '../terminal/shell-word.ts'
import { visible } from '../terminal/visible.ts'
import { shownPatch } from '../view/shown-patch.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
} from './command.ts'
import { readSettings } from './policy-file.ts'

const ProposeOptions = ServiceOptions.extend({
  repository: z.string().optional(),
  replace: z.boolean().default(false),
  branch: z.string().min(1).optional(),
})
type ProposeOptions = z.infer<typeof ProposeOptions>

export function proposeCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'propose',
    about:
      "Propose settings for a repository's own .agentweaver/settings.yml. Prints a diff for git apply, or commits it on a new branch " +
      'with --branch. Comments of the file stay. Your files, the index and the service do not change.',
    example:
      'echo "require_approval_for_all_shell: true" | agentweaver policy propose - | git apply\n' +
      'agentweaver policy propose policy.yml --branch agent-settings',
  })
    .argument('<file>', 'the settings in the syntax of .agentweaver/settings.yml, or "-" for standard input')
    .argument('[dir]', 'a folder of the repository (default: the current one)')
    .option('--branch <name>', 'commit the change on this new branch, which begins at the last commit')
    .option('--replace', 'remove the keys that the file does not name')
    .option('--repository <url>', 'check the settings also against the policy of this repository')
  command.action(async (file: string, dir: string | undefined) => {
    const options = parseOptions(ProposeOptions, command)
    const { terminal } = context
    const settings = await readSettings(context, file)
    const place = await placeOf(resolve(terminal.io.cwd, dir ?? '.'))
    await using connection = await openConnection(context, options, { whenAbsent: 'start' })
    const { client } = connection
    const propose = proposing(client, { settings, options })
    const { branch } = options
    const proposed =
      branch === undefined
        ? { proposal: await propose(await readFileIn(place.folder)) }
        : await onBranch(context, { place, branch, propose })
    if (options.json) terminal.json({ ...proposed.proposal, ...present({ branch, commit: proposed.commit }) })
    else
      print(context, {
        ...proposed,
        branch,
        top: place.folder,
        git: await gitAt(place.folder, terminal.io.cwd),
      })
    context.exit(EXIT.ok)
  })
  return command
}

type Propose = (file: string | undefined) => Promise<PolicyProposal>
type Proposed = { readonly proposal: PolicyProposal; readonly commit?: string }

const proposing =
  (
    client: Client,
    { settings, options }: { settings: SandboxSettingsPatch; options: ProposeOptions },
  ): Propose =>
  (file) =>
    client.proposePolicy(
      { settings, replace: options.replace, file: file ?? null },
      present({ repository: options.repository }),
    )

interface Place {
  /** The top of the repository. Without one, the folder itself. */
  readonly folder: string
  readonly repository?: Repository
}

async function placeOf(dir: string): Promise<Place> {
  const real = await realpath(dir).catch(() => undefined)
  if (real === undefined) throw usageError(`There is no folder ${visible(dir)}.`)
  const own = await findGit(real)
  const above = own.kind === 'none' ? await findEnclosingGit(real) : { root: real, git: own }
  if (!above) return { folder: real }
  if (above.git.kind === 'refused') throw usageError(`${visible(above.git.reason)}.`)
  if (above.git.kind !== 'repository') return { folder: real }
  return { folder: above.root, repository: above.git }
}

/** The text of the settings file, without following links. */
async function readFileIn(folder: string): Promise<string | undefined> {
  const workspace = await openWorkspace(folder)
  try {
    const found = await readLocal(workspace, parsePath(SETTINGS_FILE.path))
    if (found.kind === 'absent') return undefined
    if (found.kind === 'file')
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(found.bytes)
  } catch (error) {
    throw new CliError(`${SETTINGS_FILE.path} cannot be read: ${visible(messageOf(error))}`, {
      status: EXIT.refused,
      cause: error,
    })
  } finally {
    workspace.close()
  }
  throw new CliError(`${SETTINGS_FILE.path} is not a regular file.`, { status: EXIT.refused })
}

interface OnBranch {
  readonly place: Place
  readonly branch: string
  readonly propose: Propose
}

/** The change builds on the last commit, not on the file in the folder. */
async function onBranch({ terminal }: CliContext, { place, branch, propose }: OnBranch): Promise<Proposed> {
  const { folder, repository } = place
  if (!repository) throw usageError(`${visible(folder)} is not in a git repository.`)
  const site = { io: terminal.io, folder, repository, branch, path: SETTINGS_FILE.path }
  return withBranchStart(site, async (start) => {
    const proposal = await propose(start.text)
    if (proposal.diff === '') return { proposal }
    return { proposal, commit: await start.commit(proposal.text, commitMessage(proposal)) }
  })
}

const commitMessage = ({ path }: PolicyProposal): string =>
  [
    'Propose settings for agents',
    '',
    `Changes ${path}. Runs in a folder use the change`,
    'after "agentweaver trust", and runs on an uploaded folder after',
    '"--accept-settings". The first run of a person in a folder uses the',
    'file without "agentweaver trust". Runs that clone the repository',
    'ignore the file.',
    '',
  ].join('\n')

type Shown = Proposed & {
  readonly branch: string | undefined
  /** The folder to which the paths of the diff are relative. */
  readonly top: string
  /** How a git command for the repository begins. */
  readonly git: string
}

function print({ terminal }: CliContext, { proposal: { diff }, commit, branch, top, git }: Shown): void {
  if (diff === '') {
    terminal.note('The file has these settings already. Nothing was changed.')
    return
  }
  const { stdout } = terminal.io
  if (commit === undefined) {
    stdout.write(stdout.isTTY ? shownPatch(diff, terminal.paint) : diff)
    // In a folder below the top, git would ignore the paths of the diff without a message.
    const apply = terminal.io.cwd === top ? 'git' : gitIn(top)
    terminal.note(`Nothing was changed. Apply the diff with "${apply} apply".`)
    return
  }
  terminal.print(visible(branch ?? ''))
  const word = visible(quoteWord(branch ?? ''))
  terminal.note([
    `Commit ${commit}. Your files and the index did not change.`,
    `Review:  ${git} show ${word}`,
    `Discard: ${git} branch -D ${word}`,
  ])
}
