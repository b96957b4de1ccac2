import type { Command } from 'commander'
import * as z from 'zod'
import type { ChangedFile, RunDiff } from '../../contracts/results.ts'
import type { Client } from '../../runtime/client/client.ts'
import { usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { changeWords, handOffLines, remarkLines } from '../results/result-lines.ts'
import { table } from '../terminal/table.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { visible } from '../terminal/visible.ts'
import { shownPatch } from '../view/shown-patch.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
} from './command.ts'

const DiffOptions = ServiceOptions.extend({
  stat: z.boolean().default(false),
  nameOnly: z.boolean().default(false),
})

export function diffCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'diff',
    about: 'Show what a run changed in its folder. The diff is available after the run has ended.',
    example: 'agentweaver diff run_0197f6f2…\nagentweaver diff run_0197f6f2… --stat',
  })
    .argument('<run>', 'id of the run or sandbox')
    .option('--stat', 'print only how much changed in each file')
    .option('--name-only', 'print only the paths')
  command.action(async (id: string) => {
    const options = parseOptions(DiffOptions, command)
    refuseBoth(options)
    const { terminal } = context
    await using connection = await openConnection(context, options, { whenAbsent: 'open' })
    const diff = await connection.client.readDiff(id)
    if (options.json) terminal.json(diff)
    else {
      if (options.stat) terminal.print(statLines(diff, terminal))
      else if (options.nameOnly) terminal.print(nameLines(diff, terminal))
      else await printPatch(terminal, connection.client, { id, diff })
      terminal.note([...handOffLines(diff, terminal.notePaint), ...remarkLines(diff)])
    }
    context.exit(EXIT.ok)
  })
  return command
}

function refuseBoth({ stat, nameOnly }: z.infer<typeof DiffOptions>): void {
  if (stat && nameOnly) throw usageError('Give either --stat or --name-only, not both.')
}

/** Escapes control characters for a terminal. Files and pipes get the names unchanged. */
const shownBy =
  ({ io }: Terminal) =>
  (text: string): string =>
    io.stdout.isTTY ? visible(text) : text

function nameLines({ files, ignored }: RunDiff, terminal: Terminal): string[] {
  return [...files.map(({ path }) => path), ...(ignored?.paths ?? [])].map(shownBy(terminal))
}

const LETTERS: Readonly<Record<ChangedFile['status'], string>> = {
  added: 'A',
  modified: 'M',
  deleted: 'D',
  renamed: 'R',
  'type changed': 'T',
}

function statLines(diff: RunDiff, terminal: Terminal): string[] {
  const { paint, width } = terminal
  const number = (value: number | undefined, sign: string) => (value === undefined ? '' : `${sign}${value}`)
  const rows = table(
    diff.files,
    [
      { title: ' ', value: ({ status }) => LETTERS[status] },
      { title: 'ADDED', value: ({ additions }) => number(additions, '+'), paint: paint.green },
      { title: 'REMOVED', value: ({ deletions }) => number(deletions, '-'), paint: paint.red },
      {
        title: 'FILE',
        value: ({ path, from }) => shownBy(terminal)(from === undefined ? path : `${from} → ${path}`),
      },
    ],
    { paint, width },
  )
  const left = diff.fileCount - diff.files.length
  return [...rows, ...(left > 0 ? [`… ${left} more files`] : []), changeWords(diff)]
}

async function printPatch(
  terminal: Terminal,
  client: Client,
  { id, diff }: { readonly id: string; readonly diff: RunDiff },
): Promise<void> {
  if (diff.patch.bytes === 0) return
  const pieces: Uint8Array[] = []
  for await (const piece of await client.readPatch(id)) pieces.push(piece)
  const patch = Buffer.concat(pieces)
  terminal.progress.clear()
  const { stdout } = terminal.io
  if (stdout.isTTY) stdout.write(shownPatch(patch.toString('utf8'), terminal.paint))
  else stdout.write(patch)
}
