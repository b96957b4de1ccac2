import { text } from 'node:stream/consumers'
import { Command } from 'commander'
import * as z from 'zod'
import { HOST_KINDS, type UserCredential, UserCredentialKind } from '../../contracts/user-credentials.ts'
import { present } from '../../runtime/kit/present.ts'
import { usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { age } from '../terminal/duration.ts'
import { askSecret } from '../terminal/prompt.ts'
import { table } from '../terminal/table.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { visible } from '../terminal/visible.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
} from './command.ts'

const KINDS = UserCredentialKind.options.join(', ')

const HostOptions = ServiceOptions.extend({ host: z.string().optional() })
const SetOptions = HostOptions.extend({ user: z.string().optional(), check: z.boolean() })

const HOST_OPTION = ['--host <host>', 'for git and registry: the host of the server'] as const

function kindOf(text: string): UserCredentialKind {
  const parsed = UserCredentialKind.safeParse(text)
  if (parsed.success) return parsed.data
  throw usageError(`There is no kind of credential "${visible(text)}". The kinds are ${KINDS}.`)
}

function setCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'set',
    about:
      'Set a credential for your runs. The command asks for the value at the terminal, or reads it from standard input; the value is never an argument. ' +
      'The service stores it encrypted and never shows it again. A value that its server rejects is not used. On Azure, the vault keeps it in an old version until your data is erased.',
    example:
      'agentweaver credential set github\n' +
      'agentweaver credential set git --host gitlab.example.com --user oauth2 < token-file\n' +
      'agentweaver credential set registry --host npm.corp.example.com < token-file\n' +
      'agentweaver credential set openai-compatible',
  })
    .argument('<kind>', `one of ${KINDS}`)
    .option(...HOST_OPTION)
    .option(
      '--user <name>',
      'the user of Basic authentication (default: x-access-token for git, a bearer token for registry)',
    )
    .option('--no-check', 'store the value without asking its server whether it accepts it')
  command.action(async (name: string) => {
    const { host, user, check, ...options } = parseOptions(SetOptions, command)
    const { terminal } = context
    const kind = kindOf(name)
    requireHost(kind, host)
    const value = await readValue(terminal, host === undefined ? kind : `${kind} ${host}`)
    if (value === undefined) return context.exit(EXIT.interrupted)
    await using connection = await openConnection(context, options, { whenAbsent: 'start' })
    const credential = await connection.client.setCredential(kind, {
      ...{ value, ...present({ host, user }) },
      ...(!check && { check }),
    })
    if (options.json) terminal.json(credential)
    else
      terminal.print(
        `Your runs use this ${kind} credential for ${visible(credential.target)} (fingerprint ${credential.fingerprint}).`,
      )
    if (credential.unchecked !== undefined && !options.json)
      terminal.note(`The value was not checked: ${visible(credential.unchecked).replace(/\.$/, '')}.`)
    context.exit(EXIT.ok)
  })
  return command
}

function requireHost(kind: UserCredentialKind, host: string | undefined): void {
  if (!HOST_KINDS.has(kind) || host !== undefined) return
  throw usageError(`Name the host: --host ${kind === 'git' ? 'gitlab' : 'npm.corp'}.example.com.`)
}

/** Undefined if the person has left the prompt. */
async function readValue(terminal: Terminal, what: string): Promise<string | undefined> {
  const given = terminal.isInteractive
    ? await askSecret(terminal, `Value of ${visible(what)}: `)
    : await text(terminal.io.stdin)
  const value = given?.trim()
  if (value === '')
    throw usageError('No value was given.', 'Type it at the terminal, or give a file with it: < FILE.')
  return value
}

function listCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'list',
    about: 'List your credentials without their values.',
    example: 'agentweaver credential list\nagentweaver credential list --json',
  })
  command.action(async () => {
    const options = parseOptions(ServiceOptions, command)
    const { terminal } = context
    await using connection = await openConnection(context, options, { whenAbsent: 'open' })
    const list = await connection.client.listCredentials()
    if (options.json) terminal.json(list)
    else if (list.items.length === 0)
      terminal.note(`You have set no credential. Set one: agentweaver credential set KIND (${KINDS}).`)
    else terminal.print(credentialTable(list.items, context))
    context.exit(EXIT.ok)
  })
  return command
}

function credentialTable(credentials: readonly UserCredential[], { terminal }: CliContext): string[] {
  const now = Date.now()
  return table(
    credentials,
    [
      { title: 'KIND', value: ({ kind }) => kind },
      {
        title: 'FOR',
        value: ({ target, user }) => visible(user === undefined ? target : `${user}@${target}`),
      },
      { title: 'FINGERPRINT', value: ({ fingerprint }) => fingerprint },
      { title: 'SET', value: ({ setAt }) => `${age(setAt, now)} ago` },
      { title: 'USED', value: ({ lastUsedAt }) => (lastUsedAt ? `${age(lastUsedAt, now)} ago` : 'never') },
    ],
    { paint: terminal.paint, width: terminal.width },
  )
}

function removeCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'remove',
    about:
      'Remove a credential of yours. The egress proxy does not insert it into any later request, also not for runs that work.',
    example:
      'agentweaver credential remove github\nagentweaver credential remove registry --host npm.corp.example.com',
  })
    .argument('<kind>', `one of ${KINDS}`)
    .option(...HOST_OPTION)
  command.action(async (name: string) => {
    const { host, ...options } = parseOptions(HostOptions, command)
    const { terminal } = context
    const kind = kindOf(name)
    requireHost(kind, host)
    await using connection = await openConnection(context, options, { whenAbsent: 'open' })
    const removed = await connection.client.removeCredential(kind, present({ host }))
    if (options.json) terminal.json(removed)
    else terminal.print(`${removed.kind} for ${visible(removed.target)}  removed`)
    context.exit(EXIT.ok)
  })
  return command
}

export function credentialCommand(context: CliContext): Command {
  return new Command('credential')
    .summary('Set, list and remove the credentials of your runs')
    .description('Credentials that only your own runs use, for git, models and package registries.')
    .addCommand(setCommand(context))
    .addCommand(listCommand(context))
    .addCommand(removeCommand(context))
}
