import { Command } from 'commander'
import * as z from 'zod'
import { fieldProblems } from '../../runtime/kit/parse-env.ts'
import { usageError } from '../cli-error.ts'
import type { ConnectionFlags } from '../service/client-config.ts'
import { type Connection, connect, type Wish } from '../service/connect.ts'
import type { Terminal } from '../terminal/terminal.ts'

export interface CliContext {
  readonly terminal: Terminal
  /** Sets the exit status of the process. */
  exit(status: number): void
}

export const ServiceOptions = z.object({
  url: z.string().optional(),
  json: z.boolean().default(false),
})
export type ServiceOptions = z.infer<typeof ServiceOptions>

/** A number option. */
export const Count = z.coerce.number().int().nonnegative()

type Spec = { readonly usage: string; readonly about: string; readonly example: string }

/** Only the first sentence appears in the list of commands. */
const firstSentence = (about: string) => about.split(/[.:;] /)[0]?.replace(/\.$/, '') ?? about

/** Creates a command with the parts that all of them have: description, example, `--json`. */
export function newCommand({ usage, about, example }: Spec): Command {
  return new Command(usage)
    .summary(firstSentence(about))
    .description(about)
    .option('--json', 'print JSON: one object, or JSON Lines for a stream')
    .addHelpText('after', `\nExample:\n  ${example.split('\n').join('\n  ')}`)
}

/** Creates a command that talks to the service. */
export const newServiceCommand = (spec: Spec): Command =>
  newCommand(spec).option(
    '--url <url>',
    'use the service at this URL instead of the one on this machine (AGENTWEAVER_URL); log in first',
  )

/** Validates a command's options. The error lists every invalid option. */
export function parseOptions<T extends z.ZodType>(schema: T, command: Command): z.output<T> {
  const parsed = schema.safeParse(command.opts())
  if (parsed.success) return parsed.data
  const problems = fieldProblems(parsed.error).map(({ field, message }) => `  --${kebab(field)}: ${message}`)
  throw usageError(['The options have problems:', ...problems].join('\n'))
}

const kebab = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

export const connectionFlags = ({ url }: ServiceOptions): ConnectionFlags =>
  url === undefined ? {} : { url }

export const openConnection = (
  context: CliContext,
  options: ServiceOptions,
  wish: Wish = { whenAbsent: 'require' },
): Promise<Connection> => connect(context.terminal, connectionFlags(options), wish)

/** Option to append to a printed command line, so that it reaches the same service. */
export const serviceSuffix = ({ url }: ServiceOptions): string => (url === undefined ? '' : ` --url ${url}`)
