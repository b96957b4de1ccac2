import type { Command } from 'commander'
import type { OfferedModel } from '../../contracts/models.ts'
import { EXIT } from '../exit-status.ts'
import { typedWords } from '../service/cli-words.ts'
import { table } from '../terminal/table.ts'
import { visible } from '../terminal/visible.ts'
import { nameOf } from '../view/agent-names.ts'
import { row } from '../view/row.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
} from './command.ts'

export function modelsCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'models',
    about:
      'List the kinds of agents and the models that your runs can use on this service, and for each that cannot be used what is missing.',
    example: 'agentweaver models\nagentweaver models --url https://agentweaver.example.com --json',
  }).addHelpText(
    'after',
    '\nExit status: 0. A listed model can be started; "agentweaver doctor --cluster" also asks each of them a question.',
  )
  command.action(async () => {
    const options = parseOptions(ServiceOptions, command)
    const { terminal } = context
    await using connection = await openConnection(context, options, { whenAbsent: 'start' })
    const list = await connection.client.listModels()
    if (options.json) terminal.json(list)
    else terminal.print(modelLines(context, list.items))
    context.exit(EXIT.ok)
  })
  return command
}

const ANY = '(any: --model NAME)'

export const modelOf = ({ kind, model }: OfferedModel): string =>
  model === undefined ? (kind === 'scripted' ? '(none: --plan FILE)' : ANY) : visible(model)

function modelLines({ terminal }: CliContext, items: readonly OfferedModel[]): string[] {
  const { paint } = terminal
  const lines = table(
    items,
    [
      { title: 'AGENT', value: ({ kind }) => nameOf(kind) },
      { title: 'MODEL', value: modelOf },
      {
        title: 'STATE',
        value: ({ usable }) => (usable ? 'usable' : 'not usable'),
        paint: (text, { usable }) => paint[usable ? 'green' : 'yellow'](text),
      },
      { title: '', value: (item) => (item.default ? 'default' : '') },
    ],
    terminal,
  )
  const reasons = new Map(items.map(({ kind, reason }) => [nameOf(kind), reason]))
  return [
    ...lines,
    ...[...reasons].flatMap(([name, reason]) =>
      reason === undefined ? [] : row(terminal, name, `${visible(typedWords(reason))}.`),
    ),
  ]
}
