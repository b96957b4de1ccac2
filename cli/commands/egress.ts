import { Command } from 'commander'
import * as z from 'zod'
import type { DeniedEgress, RunEgress } from '../../contracts/run-egress.ts'
import { EXIT } from '../exit-status.ts'
import { table } from '../terminal/table.ts'
import { visible } from '../terminal/visible.ts'
import { type NotSuggested, suggestEntries } from '../view/egress-suggestion.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
  serviceSuffix,
} from './command.ts'
import { type EgressText, readEgressFile, withEgressFile } from './egress-file.ts'

const REASON_MISSING = 'Say why, for the audit record: --reason TEXT.'
const AllowOptions = ServiceOptions.extend({
  run: z.string({ error: 'Name the run: --run RUN.' }),
  reason: z.string({ error: REASON_MISSING }).refine((text) => text.trim() !== '', REASON_MISSING),
})
const SuggestOptions = ServiceOptions.extend({ file: ServiceOptions.shape.url })

export function egressCommand(context: CliContext): Command {
  return new Command('egress')
    .description(
      'Explain what the egress proxy refused to a run, suggest entries for the egress file, and allow a run one more host',
    )
    .addCommand(explainCommand(context))
    .addCommand(allowCommand(context))
    .addCommand(suggestCommand(context))
}

const times = (count: number) => (count === 1 ? 'once' : `${count} times`)

const targetOf = ({ host, port, method }: DeniedEgress): string =>
  visible(`${method === undefined ? '' : `${method} `}${host}${port === 0 ? '' : `:${port}`}`)

function explainCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'explain',
    about: 'Show the connections that the egress proxy refused to a run, why, and what would allow them.',
    example: 'agentweaver egress explain run_0197f6f2…',
  }).argument('<run>', 'id of the run')
  command.action(async (id: string) => {
    const options = parseOptions(ServiceOptions, command)
    const { terminal } = context
    const egress = await readEgress(context, options, id)
    if (options.json) terminal.json(egress)
    else {
      terminal.print([
        ...refusalLines(egress, context),
        ...anomalyLines(egress, context),
        ...allowedLines(egress, context),
        ...hostLines(egress, context),
      ])
      if (egress.denied.length > 0)
        terminal.note(`A diff for the egress file: agentweaver egress suggest ${id}${serviceSuffix(options)}`)
    }
    context.exit(EXIT.ok)
  })
  return command
}

function allowCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'allow',
    about:
      "Allow a run that works one host that its settings (egress_hosts, --egress-host) leave out. The operator's egress list " +
      'and settings must have the host, and its limits there apply. Recorded in the audit trail with who and why.',
    example: 'agentweaver egress allow registry.npmjs.org --run run_0197f6f2… --reason "the build needs npm"',
  })
    .argument('<host>', 'name of the host')
    .option('--run <run>', 'id of the run')
    .option('--reason <text>', 'why, for the audit record and the owner of the run')
  command.action(async (name: string) => {
    const options = parseOptions(AllowOptions, command)
    const { terminal } = context
    const host = name.toLowerCase().replace(/\.$/, '')
    await using connection = await openConnection(context, options)
    const allowed = await connection.client.allowEgress(options.run, { host, reason: options.reason })
    if (options.json) terminal.json(allowed)
    else {
      terminal.print(`${allowed.host}  ${terminal.paint.green('allowed')} for ${options.run}`)
      terminal.note(`To end it: agentweaver restrict no-network ${options.run} --reason TEXT`)
    }
    context.exit(EXIT.ok)
  })
  return command
}

async function readEgress(context: CliContext, options: ServiceOptions, id: string): Promise<RunEgress> {
  await using connection = await openConnection(context, options, { whenAbsent: 'open' })
  return connection.client.readEgress(id)
}

function refusalLines({ denied, isComplete }: RunEgress, { terminal }: CliContext): string[] {
  const { paint } = terminal
  if (denied.length === 0) return ['The egress proxy has refused nothing to this run.']
  return [
    ...denied.flatMap((one, index) => [
      ...(index === 0 ? [] : ['']),
      `${paint.yellow(targetOf(one))}  refused ${times(one.count)} (${one.rule})`,
      `  ${visible(one.reason)}`,
      ...(one.remedy === '' ? [] : [`  ${paint.dim(visible(one.remedy))}`]),
    ]),
    ...(isComplete ? [] : ['', 'The run has more reports than are shown here.']),
  ]
}

const anomalyLines = ({ anomalies }: RunEgress, { terminal: { paint } }: CliContext): string[] =>
  anomalies.flatMap(({ kind, host, port, reason }) => [
    '',
    `${paint.yellow(visible(port === 0 ? host : `${host}:${port}`))}  unusual (${kind})`,
    `  ${visible(reason)}`,
  ])

function allowedLines({ allowed }: RunEgress, { terminal }: CliContext): string[] {
  if (allowed.length === 0) return []
  const rows = table(
    allowed,
    [
      { title: 'ALLOWED', value: ({ host }) => host },
      { title: 'BY', value: ({ by }) => visible(by) },
      { title: 'REASON', value: ({ reason }) => visible(reason) },
    ],
    { paint: terminal.paint, width: terminal.width },
  )
  return ['', ...rows]
}

function hostLines({ hosts }: RunEgress, { terminal }: CliContext): string[] {
  const reached = hosts.filter(({ connections }) => connections > 0)
  if (reached.length === 0) return []
  const { paint, width } = terminal
  const rows = table(
    reached,
    [
      { title: 'CONNECTIONS', value: ({ connections }) => String(connections) },
      { title: 'SENT', value: ({ sentBytes }) => `${sentBytes} B` },
      { title: 'RECEIVED', value: ({ receivedBytes }) => `${receivedBytes} B` },
      { title: 'HOST', value: ({ host, port }) => visible(`${host}:${port}`) },
    ],
    { paint, width },
  )
  return ['', ...rows]
}

function suggestCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'suggest',
    about:
      'Print a diff of the egress file with the narrowest entries that would allow what was refused to a run. Nothing is ' +
      'changed: an operator reviews the diff, applies it, and restarts the service.',
    example:
      'agentweaver egress suggest run_0197f6f2… --file egress.yaml > egress.diff\npatch egress.yaml egress.diff',
  })
    .argument('<run>', 'id of the run')
    .option(
      '--file <path>',
      'the egress file of the service (default: AGENTWEAVER_EGRESS_FILE, else the built-in list)',
    )
  command.action(async (id: string) => {
    const options = parseOptions(SuggestOptions, command)
    const file = await readEgressFile(context, { given: options.file, option: '--file' })
    const egress = await readEgress(context, options, id)
    const { diff, notSuggested } = suggest(egress, file)
    const { terminal } = context
    if (options.json) terminal.json({ file: file.name, diff, notSuggested })
    else {
      if (diff !== '') terminal.print(diff.trimEnd().split('\n').map(visible))
      terminal.note(notesOf({ diff, notSuggested, hasDenials: egress.denied.length > 0 }))
    }
    context.exit(EXIT.ok)
  })
  return command
}

const suggest = (egress: RunEgress, file: EgressText) =>
  withEgressFile(file, () => suggestEntries(egress, file))

type Suggested = {
  readonly diff: string
  readonly notSuggested: readonly NotSuggested[]
  readonly hasDenials: boolean
}

function notesOf({ diff, notSuggested, hasDenials }: Suggested): string[] {
  return [
    ...(hasDenials ? [] : ['The egress proxy has refused nothing to this run.']),
    ...notSuggested.map(
      ({ denied, why }) =>
        `Nothing is suggested for ${targetOf(denied)} (${denied.rule}): ${visible(why).replace(/\.$/, '')}.`,
    ),
    ...(diff === ''
      ? []
      : [
          'Review the diff, write what each entry is for, apply it to the egress file of the service, and restart the service.',
        ]),
  ]
}
