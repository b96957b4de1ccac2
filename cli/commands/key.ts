import { Command } from 'commander'
import * as z from 'zod'
import { type ApiKey, ApiRole, KEY_LIMITS } from '../../contracts/api-keys.ts'
import { usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { age } from '../terminal/duration.ts'
import { table } from '../terminal/table.ts'
import { visible } from '../terminal/visible.ts'
import {
  type CliContext,
  Count,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
  serviceSuffix,
} from './command.ts'

const ROLES = ApiRole.options.join(', ')

const CreateOptions = ServiceOptions.extend({
  role: z.string().default('user'),
  owner: z.string().min(1).max(256).optional(),
  days: z.coerce.number().int().min(1).max(KEY_LIMITS.maxDays).optional(),
})

function createCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'create',
    about:
      'Create an API key and print it. It is printed once: the service stores only its hash. A key never has more rights than ' +
      'the key that creates it, and is not valid for longer.',
    example:
      'agentweaver key create "nightly build" --days 30\n' +
      'agentweaver key create "audit export" --role auditor --owner security-team',
  })
    .argument('<name>', 'what the key is for')
    .option('--role <role>', `one of ${ROLES} (default: user)`)
    .option('--owner <name>', 'the owner of its runs (default: you); only operators may name others')
    .option(
      '--days <n>',
      `valid for so many days, at most ${KEY_LIMITS.maxDays} (default: ${KEY_LIMITS.defaultDays})`,
    )
  command.action(async (name: string) => {
    const options = parseOptions(CreateOptions, command)
    const { terminal } = context
    const { owner, days } = options
    await using connection = await openConnection(context, options, { whenAbsent: 'start' })
    const created = await connection.client.createApiKey({
      name,
      role: roleOf(options.role),
      ...(owner !== undefined && { owner }),
      ...(days !== undefined && { expiresInDays: days }),
    })
    if (options.json) terminal.json(created)
    else {
      terminal.print(created.key)
      terminal.note(
        `${created.id}: role ${created.role}, owner ${visible(created.owner)}, expires ${created.expiresAt ?? 'never'}.`,
      )
      terminal.note('Store it now; it is not shown again.')
      terminal.note(`Revoke it: agentweaver key revoke ${created.id}${serviceSuffix(options)}`)
    }
    context.exit(EXIT.ok)
  })
  return command
}

function roleOf(text: string): ApiRole {
  const parsed = ApiRole.safeParse(text)
  if (parsed.success) return parsed.data
  throw usageError(`There is no role "${visible(text)}". The roles are ${ROLES}.`)
}

const ListOptions = ServiceOptions.extend({
  limit: Count.pipe(z.number().min(1).max(200)).default(50),
  after: z.string().optional(),
})

function listCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'list',
    about: 'List API keys, newest first. Operators and auditors see the keys of all owners.',
    example: 'agentweaver key list\nagentweaver key list --json',
  })
    .option('--limit <n>', 'how many, at most 200 (default: 50)')
    .option('--after <key>', 'continue after this key')
  command.action(async () => {
    const options = parseOptions(ListOptions, command)
    const { terminal } = context
    const { limit, after } = options
    await using connection = await openConnection(context, options, { whenAbsent: 'open' })
    const page = await connection.client.listApiKeys({ limit, ...(after !== undefined && { after }) })
    if (options.json) terminal.json(page)
    else terminal.print(keyTable(page.items, context))
    if (page.next !== undefined && !options.json)
      terminal.note(`More: agentweaver key list --after ${page.next}${serviceSuffix(options)}`)
    context.exit(EXIT.ok)
  })
  return command
}

function keyTable(keys: readonly ApiKey[], { terminal }: CliContext): string[] {
  const now = Date.now()
  return table(
    keys,
    [
      { title: 'KEY', value: ({ id }) => id },
      { title: 'ROLE', value: ({ role }) => role },
      {
        title: 'STATE',
        value: ({ state }) => state,
        paint: (text, { state }) => (state === 'active' ? text : terminal.paint.dim(text)),
      },
      { title: 'EXPIRES', value: ({ expiresAt }) => expiresAt?.slice(0, 10) ?? 'never' },
      { title: 'USED', value: ({ lastUsedAt }) => (lastUsedAt ? `${age(lastUsedAt, now)} ago` : 'never') },
      { title: 'OWNER', value: ({ owner }) => visible(owner) },
      { title: 'NAME', value: ({ name }) => visible(name ?? '(first key)') },
    ],
    { paint: terminal.paint, width: terminal.width },
  )
}

function revokeCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'revoke',
    about:
      'Revoke an API key. Every later request with it is refused, and its open streams end. Keys that were created with it ' +
      'stay active and are listed.',
    example: 'agentweaver key revoke key_0197f6f2…',
  }).argument('<key>', 'id of the key')
  command.action(async (id: string) => {
    const options = parseOptions(ServiceOptions, command)
    const { terminal } = context
    await using connection = await openConnection(context, options, { whenAbsent: 'open' })
    const revoked = await connection.client.revokeApiKey(id)
    if (options.json) terminal.json(revoked)
    else {
      terminal.print(`${revoked.id}  revoked`)
      if (revoked.stillActive.length > 0)
        terminal.note([
          'These keys were created with it and stay active. Revoke those that you do not know:',
          ...revoked.stillActive.map((key) => `  agentweaver key revoke ${key}${serviceSuffix(options)}`),
        ])
    }
    context.exit(EXIT.ok)
  })
  return command
}

export function keyCommand(context: CliContext): Command {
  return new Command('key')
    .summary('Create, list and revoke API keys')
    .description('API keys, for services and for other people.')
    .addCommand(createCommand(context))
    .addCommand(listCommand(context))
    .addCommand(revokeCommand(context))
}
