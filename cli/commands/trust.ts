import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import * as z from 'zod'
import type { SettingsComparison, TrustedFolder } from '../../contracts/trusted-folders.ts'
import type { Client } from '../../runtime/client/client.ts'
import { CliError, usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { inFolder } from '../service/folder-refusal.ts'
import { age } from '../terminal/duration.ts'
import { ask } from '../terminal/prompt.ts'
import { table } from '../terminal/table.ts'
import { visible } from '../terminal/visible.ts'
import { differenceLines } from '../view/settings-difference.ts'
import { type CliContext, newServiceCommand, openConnection, parseOptions } from './command.ts'
import { ListOptions } from './runs.ts'

const TrustOptions = ListOptions.extend({
  list: z.boolean().default(false),
  remove: z.boolean().default(false),
  yes: z.boolean().default(false),
})
type TrustOptions = z.infer<typeof TrustOptions>

export function trustCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'trust',
    about:
      "Put a folder's .agentweaver/settings.yml in force. Runs use the copy that the service took at the first run in the " +
      'folder or when you last trusted it, and not the file itself, because an agent can write the file.',
    example: 'agentweaver trust .\nagentweaver trust --list',
  })
    .argument('[dir]', 'the folder (default: the current one)')
    .option('-y, --yes', 'trust the file without asking')
    .option('--list', 'list the folders with settings in force, the last trusted first')
    .option('--remove', 'forget the folder; the next run in it puts the settings file of that time in force')
    .option('--limit <n>', 'how many --list shows (1 to 200)', '20')
    .option('--after <token>', 'the next page of --list; the previous page prints the token')
  command.action(async (dir: string | undefined) => {
    const options = parseOptions(TrustOptions, command)
    refuseContradictions(dir, options)
    const path = resolve(context.terminal.io.cwd, dir ?? '.')
    const work = options.list ? list : options.remove ? remove : trust
    context.exit(await work(context, options, path))
  })
  return command
}

function refuseContradictions(dir: string | undefined, { list, remove, yes, after }: TrustOptions): void {
  const rules: (readonly [boolean, string])[] = [
    [list && remove, 'Give either --list or --remove, not both.'],
    [list && dir !== undefined, '--list takes no folder: it lists all of them.'],
    [yes && (list || remove), '--yes cannot be combined with --list or --remove, which do not ask.'],
    [!list && after !== undefined, '--after needs --list.'],
  ]
  for (const [isWrong, message] of rules) if (isWrong) throw usageError(message)
}

async function trust(context: CliContext, options: TrustOptions, path: string): Promise<number> {
  const { terminal } = context
  if (!(await stat(path).catch(() => undefined))?.isDirectory())
    throw usageError(`This is not a folder: ${path}`)
  await using connection = await openConnection(context, options, { whenAbsent: 'start', workspace: path })
  const { client } = connection
  terminal.progress.waitFor('comparing the settings')
  const found = await inFolder(client.compareSettings({ path }), {
    connection,
    path,
    otherwise: 'Settings for uploaded files come with the request that starts the run: docs/governance.md.',
  })
  const answer = (comparison: SettingsComparison, words: string) => {
    if (options.json) terminal.json(comparison)
    else terminal.print(words)
  }
  const name = visible(found.path)
  if (found.isSame) {
    answer(found, `The settings in force in ${name} equal its settings file: nothing to do.`)
    return EXIT.ok
  }
  if (options.json) terminal.note(differenceLines(found, terminal.notePaint))
  else terminal.print(differenceLines(found, terminal.paint))
  if (options.yes || (await isConfirmed(context, found))) {
    answer(await putInForce(client, found), `The settings are now in force for your runs in ${name}.`)
    return EXIT.ok
  }
  answer(found, 'Nothing was changed.')
  return EXIT.refused
}

const putInForce = (client: Client, { path, file }: SettingsComparison): Promise<SettingsComparison> =>
  client.trustFolder({ path, digest: file.digest })

/** Asks for confirmation. Without a terminal, the answer is no. */
async function isConfirmed({ terminal }: CliContext, { file }: SettingsComparison): Promise<boolean> {
  if (!terminal.isInteractive) {
    terminal.note('There is no terminal to ask at. Confirm with --yes.')
    return false
  }
  const stop = new AbortController()
  const what = file.text === undefined ? 'the defaults' : 'this file'
  const answer = await ask(terminal, {
    text: `Put ${what} in force? [y/N] `,
    signal: stop.signal,
    onInterrupt: () => stop.abort(),
  })
  if (stop.signal.aborted)
    throw new CliError('Interrupted: nothing was changed.', { status: EXIT.interrupted })
  return /^y(?:es)?$/i.test(answer?.trim() ?? '')
}

async function remove(context: CliContext, options: TrustOptions, path: string): Promise<number> {
  const { terminal } = context
  await using connection = await openConnection(context, options, { whenAbsent: 'open' })
  await connection.client.forgetFolder({ path })
  if (options.json) terminal.json({ path, state: 'forgotten' })
  else terminal.print(`${visible(path)}  forgotten`)
  return EXIT.ok
}

async function list(context: CliContext, options: TrustOptions): Promise<number> {
  const { terminal } = context
  const { limit, after } = options
  await using connection = await openConnection(context, options, { whenAbsent: 'open' })
  const page = await connection.client.listTrustedFolders({
    limit,
    ...(after === undefined ? {} : { after }),
  })
  if (options.json) terminal.json(page)
  else {
    terminal.print(folderTable(page.items, context))
    if (page.next) terminal.note(`More: agentweaver trust --list --limit ${limit} --after ${page.next}`)
  }
  return EXIT.ok
}

function folderTable(folders: readonly TrustedFolder[], { terminal }: CliContext): string[] {
  const now = Date.now()
  return table(
    folders,
    [
      { title: 'SETTINGS', value: ({ settings }) => settings },
      { title: 'BY', value: ({ origin }) => (origin === 'trust' ? 'trust' : 'first run') },
      { title: 'AGE', value: ({ trustedAt }) => age(trustedAt, now) },
      { title: 'FOLDER', value: ({ path }) => visible(path) },
    ],
    { paint: terminal.paint, width: terminal.width },
  )
}
