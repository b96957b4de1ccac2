import type { Command } from 'commander'
import * as z from 'zod'
import type { Diagnostics } from '../../contracts/diagnostics.ts'
import { delay } from '../../runtime/kit/deadline.ts'
import { toCliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import type { Connection } from '../service/connect.ts'
import { onInterrupt } from '../terminal/interrupts.ts'
import { visibleLine } from '../terminal/visible.ts'
import { topLines } from '../view/top-lines.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
} from './command.ts'

const DEFAULT_SECONDS = 5
/** Each refresh reads the queue and writes to the store, so a terminal that is left open must not be a burden. */
const SECONDS = { min: 2, max: 3_600 } as const

const TopOptions = ServiceOptions.extend({
  watch: z
    .union([
      z.literal(true).transform(() => DEFAULT_SECONDS),
      z.coerce.number().min(SECONDS.min).max(SECONDS.max),
    ])
    .optional(),
})
type TopOptions = z.infer<typeof TopOptions>

/** Moves to the top left and clears the screen. */
const CLEAR = '\u001b[H\u001b[2J'

export function topCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'top',
    about:
      'Show the state of a deployment: replicas, store, sandboxes, runs, queue, open requests, overdue work, and the runs that wait for a person. Needs the role operator or auditor.',
    example: 'agentweaver top\nagentweaver top --watch 10 --url https://agentweaver.example.com',
  })
    .option(
      '--watch [seconds]',
      `show it again every ${DEFAULT_SECONDS} seconds, or as often as given (at least ${SECONDS.min} seconds), until Ctrl-C`,
    )
    .addHelpText('after', '\nThe runbook in docs/operations.md has the next steps.')
  command.action(async () => {
    const options = parseOptions(TopOptions, command)
    await using connection = await openConnection(context, options)
    if (options.watch === undefined) show(context, options, await connection.client.readDiagnostics())
    else await watch(context, options, { connection, everyMs: options.watch * 1_000 })
    context.exit(EXIT.ok)
  })
  return command
}

function show({ terminal }: CliContext, { json }: TopOptions, diagnostics: Diagnostics): void {
  if (json) terminal.json(diagnostics)
  else terminal.print(topLines(diagnostics, terminal))
}

type Watching = { readonly connection: Connection; readonly everyMs: number }

async function watch(
  context: CliContext,
  options: TopOptions,
  { connection, everyMs }: Watching,
): Promise<void> {
  const stop = new AbortController()
  using _interrupts = onInterrupt(() => stop.abort())
  const { signal } = stop
  // The first answer shows whether the address and the role are right, so its error ends the command.
  let diagnostics: Diagnostics | undefined = await connection.client.readDiagnostics({ signal })
  while (!signal.aborted) {
    if (diagnostics) show(context, options, diagnostics)
    await delay(everyMs, signal).catch(() => undefined)
    diagnostics = signal.aborted ? undefined : await readOrNote(context, connection, signal)
    if (diagnostics) separate(context, options)
  }
}

/** A service that restarts is no reason to stop, because an operator watches the restart. */
async function readOrNote(
  { terminal }: CliContext,
  { client }: Connection,
  signal: AbortSignal,
): Promise<Diagnostics | undefined> {
  try {
    return await client.readDiagnostics({ signal })
  } catch (error) {
    const message = toCliError(error)?.message ?? String(error)
    if (!signal.aborted) terminal.note(`${new Date().toISOString()}  ${visibleLine(message)}`)
    return undefined
  }
}

function separate({ terminal }: CliContext, { json }: TopOptions): void {
  if (json) return
  const { stdout } = terminal.io
  if (stdout.isTTY) stdout.write(CLEAR)
  else terminal.print('')
}
