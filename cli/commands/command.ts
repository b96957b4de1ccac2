import { Command } from 'commander'
import * as z from 'zod'
import { fieldProblems } from '../../runtime/kit/parse-env.ts'
import { usageError } from '../cli-error.ts'
import type { ConnectionFlags } from '../service/client-config.ts'
import { type Connection, connect, type Wish } from '../service/connect.ts'
import type { Terminal } from '../terminal/terminal.ts'

/** What every command works with. */
export interface CliContext {
  readonly terminal: Terminal
  /** Sets the exit status of the process. */
  exit(status: number): void
}

/** Options of every command that talks to the service. */
export const ServiceOptions = z.object({
  url: z.string().optional(),
  json: z.boolean().default(false),
})
export type ServiceOptions = z.infer<typeof ServiceOptions>

/** A number that was typed as an option. */
export const Count = z.coerce.number().int().nonnegative()

type Spec = { readonly usage: string; readonly about: string; readonly example: string }

/** What the list of commands says; the command's own help says all. */
const firstSentence = (about: string) => about.split(/[.:;] /)[0]?.replace(/\.$/, '') ?? about

/** A command with what all of them have: a description, an example, `--json`. */
export function newCommand({ usage, about, example }: Spec): Command {
  return new Command(usage)
    .summary(firstSentence(about))
    .description(about)
    .option('--json', 'print JSON: one object, or JSON Lines for a stream')
    .addHelpText('after', `\nExample:\n  ${example.split('\n').join('\n  ')}`)
}

/** A command that talks to the service. */
export const newServiceCommand = (spec: Spec): Command =>
  newCommand(spec).option(
    '--url <url>',
    'use the service at this URL instead of the one on this machine (AGENTWEAVER_URL); log in first',
  )

/** The options of a command in the types that it works with; every problem is named. */
export function parseOptions<T extends z.ZodType>(schema: T, command: Command): z.output<T> {
  const parsed = schema.safeParse(command.opts())
  if (parsed.success) return parsed.data
  const problems = fieldProblems(parsed.error).map(({ field, message }) => `  --${kebab(field)}: ${message}`)
  throw usageError(['The options have problems:', ...problems].join('\n'))
}

const kebab = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

/** The flag that says where the service is, if it was given. */
export const connectionFlags = ({ url }: ServiceOptions): ConnectionFlags =>
  url === undefined ? {} : { url }

export const openConnection = (
  context: CliContext,
  options: ServiceOptions,
  wish: Wish = { whenAbsent: 'require' },
): Promise<Connection> => connect(context.terminal, connectionFlags(options), wish)

/** What to add to a command line that is shown, so that it finds the same service. */
export const serviceSuffix = ({ url }: ServiceOptions): string => (url === undefined ? '' : ` --url ${url}`)
