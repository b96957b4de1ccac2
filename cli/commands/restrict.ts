import type { Command } from 'commander'
import * as z from 'zod'
import { type Restriction, RestrictionLevel, type RestrictionScope } from '../../contracts/restrictions.ts'
import { usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { age } from '../terminal/duration.ts'
import { table } from '../terminal/table.ts'
import { visible } from '../terminal/visible.ts'
import { restrictionEffect, scopeWords } from '../view/restriction-words.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
  serviceSuffix,
} from './command.ts'

const RestrictOptions = ServiceOptions.extend({
  owner: z.string().min(1).optional(),
  all: z.boolean().default(false),
  reason: z.string().optional(),
})
type RestrictOptions = z.infer<typeof RestrictOptions>

const LEVELS = RestrictionLevel.options.join(', ')

export function restrictCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'restrict',
    about:
      'Restrict runs at once, or lift a restriction with "normal". read-only: file tools only read, and commands reach the ' +
      'network with GET and HEAD only. no-network: commands have no network. frozen: nothing new starts, and commands are ' +
      'stopped until the restriction is lifted. It stays in force after a restart, and applies to new runs of the same scope. ' +
      'Without a level, lists the restrictions in force.',
    example:
      'agentweaver restrict no-network run_0197f6f2… --reason "uploads to an unknown host"\n' +
      'agentweaver restrict frozen --all --reason "incident 42"\n' +
      'agentweaver restrict normal --all --reason "incident 42 is over"\n' +
      'agentweaver restrict',
  })
    .argument('[level]', LEVELS)
    .argument('[run]', 'id of a run or a sandbox')
    .option('--owner <name>', 'all runs of this owner, also those that start later')
    .option('--all', 'all runs, also those that start later')
    .option('--reason <text>', 'why, for the audit record and the owners of the runs')
  command.action(async (level: string | undefined, run: string | undefined) => {
    const options = parseOptions(RestrictOptions, command)
    if (level === undefined) await list(context, options)
    else await restrict(context, options, { level: levelOf(level), scope: scopeOf(options, run) })
    context.exit(EXIT.ok)
  })
  return command
}

function levelOf(text: string): Restriction['level'] {
  const parsed = RestrictionLevel.safeParse(text)
  if (parsed.success) return parsed.data
  throw usageError(`There is no level "${visible(text)}". The levels are ${LEVELS}.`)
}

function scopeOf({ owner, all }: RestrictOptions, run: string | undefined): RestrictionScope {
  const scopes: RestrictionScope[] = [
    ...(run === undefined ? [] : [{ kind: 'run' as const, id: run }]),
    ...(owner === undefined ? [] : [{ kind: 'owner' as const, owner }]),
    ...(all ? [{ kind: 'all' as const }] : []),
  ]
  const [scope] = scopes
  if (scope && scopes.length === 1) return scope
  throw usageError('Name what to restrict: either the id of a run, --owner NAME or --all.')
}

type Wanted = Pick<Restriction, 'level' | 'scope'>

async function restrict(
  context: CliContext,
  options: RestrictOptions,
  { level, scope }: Wanted,
): Promise<void> {
  const { terminal } = context
  const { reason } = options
  if (reason === undefined || reason.trim() === '')
    throw usageError('Say why, for the audit record: --reason TEXT.')
  await using connection = await openConnection(context, options)
  const set = await connection.client.setRestriction({ scope, level, reason })
  if (options.json) {
    terminal.json(set)
    return
  }
  terminal.print(
    `${scopeWords(set.scope)}  ${level === 'normal' ? terminal.paint.green(level) : terminal.paint.yellow(level)}`,
  )
  terminal.print(`  ${restrictionEffect(level)}`)
  if (level !== 'normal') terminal.note(`Lift it: ${liftCommand(set.scope)}${serviceSuffix(options)}`)
}

function liftCommand(scope: RestrictionScope): string {
  const target = scope.kind === 'run' ? scope.id : scope.kind === 'owner' ? `--owner ${scope.owner}` : '--all'
  return `agentweaver restrict normal ${target} --reason TEXT`
}

async function list(context: CliContext, options: RestrictOptions): Promise<void> {
  const { terminal } = context
  if (options.owner !== undefined || options.all || options.reason !== undefined)
    throw usageError(`Name a level first: ${LEVELS}.`)
  await using connection = await openConnection(context, options, { whenAbsent: 'open' })
  const { items } = await connection.client.listRestrictions()
  if (options.json) terminal.json({ items })
  else if (items.length === 0) terminal.print('No run is restricted.')
  else terminal.print(restrictionTable(items, context))
}

function restrictionTable(items: readonly Restriction[], { terminal }: CliContext): string[] {
  const now = Date.now()
  return table(
    items,
    [
      { title: 'LEVEL', value: ({ level }) => level, paint: (text) => terminal.paint.yellow(text) },
      { title: 'RUNS', value: ({ scope }) => scopeWords(scope) },
      { title: 'BY', value: ({ by }) => visible(by) },
      { title: 'AGE', value: ({ at }) => age(at, now) },
      { title: 'REASON', value: ({ reason }) => visible(reason) },
    ],
    { paint: terminal.paint, width: terminal.width },
  )
}
