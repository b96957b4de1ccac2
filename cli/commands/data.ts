import { once } from 'node:events'
import { Command } from 'commander'
import * as z from 'zod'
import type { ErasedData } from '../../contracts/owner-data.ts'
import { CliError, usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { ask } from '../terminal/prompt.ts'
import { visible } from '../terminal/visible.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
} from './command.ts'

export function dataCommand(context: CliContext): Command {
  return new Command('data')
    .description('Export or erase what the service stores of a person')
    .addCommand(exportDataCommand(context))
    .addCommand(eraseDataCommand(context))
}

function exportDataCommand(context: CliContext): Command {
  const Options = ServiceOptions.extend({ owner: z.string().min(1).optional() })
  const command = newServiceCommand({
    usage: 'export',
    about:
      'Export what the service stores of you, or of another owner, as JSON Lines: API keys and credentials without their secrets, trusted folders, runs, events and audit records. The files of a run are not included: use diff, fetch and pull.',
    example: 'agentweaver data export > me.jsonl\nagentweaver data export --owner ada > ada.jsonl',
  }).option('--owner <name>', 'another owner; for operators and auditors, and recorded in the audit')
  command.action(async () => {
    const { owner, ...options } = parseOptions(Options, command)
    const { terminal } = context
    await using connection = await openConnection(context, options, { whenAbsent: 'open' })
    let isComplete = false
    for await (const line of connection.client.exportData(owner === undefined ? {} : { owner })) {
      terminal.json(line)
      isComplete = line.type === 'end'
      if (terminal.io.stdout.writableNeedDrain) await once(terminal.io.stdout, 'drain')
    }
    if (!isComplete) throw brokeOff('export', 'Export again; what was printed is incomplete.')
    context.exit(EXIT.ok)
  })
  return command
}

function eraseDataCommand(context: CliContext): Command {
  const Options = ServiceOptions.extend({ owner: z.string().min(1), yes: z.boolean().default(false) })
  const command = newServiceCommand({
    usage: 'erase',
    about:
      'Erase what the service stores of an owner whose runs have ended: keys, credentials, trusted folders, runs with their events, files and audit records. It cannot be undone; export first. The final head of the audit of each run stays, so that the audit can still be verified.',
    example: 'agentweaver data erase --owner ada',
  })
    .requiredOption('--owner <name>', 'whose data; for operators')
    .option('-y, --yes', 'erase without asking')
  command.action(async () => {
    const { owner, yes, ...options } = parseOptions(Options, command)
    const { terminal } = context
    if (!yes) await confirm(context, owner)
    await using connection = await openConnection(context, options, { whenAbsent: 'open' })
    const report = await lastReport(context, connection.client.eraseData({ owner }))
    if (options.json) terminal.json(report)
    else print(context, report)
    context.exit(EXIT.ok)
  })
  return command
}

async function lastReport({ terminal }: CliContext, reports: AsyncIterable<ErasedData>): Promise<ErasedData> {
  for await (const report of reports) {
    if (report.isComplete) return report
    terminal.progress.waitFor(`erasing: ${plural(report.runs, 'run')}`)
  }
  throw brokeOff('erasure', 'Erase again; it continues where it stopped.')
}

function print({ terminal }: CliContext, report: ErasedData): void {
  const { runs, events, records, keys } = report
  const ofRuns = `${plural(runs, 'run')} with ${plural(events, 'event')} and ${plural(records, 'audit record')}`
  terminal.print(`Erased ${ofRuns}, and ${plural(keys, 'key')}.`)
  for (const note of whatIsLeft(report)) terminal.note(note)
}

/** What is deleted after the erasure, and when. */
export const whatIsLeft = ({ secretsPurgedAt: at, secretsPurgedBy: by }: Purge): string[] => [
  'Stored files that no run uses any more are deleted within minutes.',
  ...(at === undefined
    ? []
    : [`The vault keeps the deleted credentials, unreadable, and purges them on ${at.slice(0, 10)}.`]),
  ...(by === undefined
    ? []
    : [
        `The vault keeps the deleted credentials, unreadable, and purges them by ${by.slice(0, 10)}. It did not report the exact date.`,
      ]),
]

type Purge = Pick<ErasedData, 'secretsPurgedAt' | 'secretsPurgedBy'>

/** The owner's name again, because `y` is typed too easily. */
async function confirm({ terminal }: CliContext, owner: string): Promise<void> {
  if (!terminal.isInteractive) throw usageError('Erasing cannot be undone. Without a terminal, add --yes.')
  const withdrawn = new AbortController()
  const answer = await ask(terminal, {
    text: `Erase everything of ${visible(owner)}? Type the name to confirm: `,
    signal: withdrawn.signal,
    onInterrupt: () => withdrawn.abort(),
  })
  if (answer?.trim() !== owner) throw new CliError('Nothing was erased.', { status: EXIT.refused })
}

const plural = (count: number, one: string) =>
  `${count.toLocaleString('en')} ${count === 1 ? one : `${one}s`}`

const brokeOff = (what: string, hint: string) =>
  new CliError(`The ${what} broke off before its end.`, { status: EXIT.unreachable, hint })
