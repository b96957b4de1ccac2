import type { Command } from 'commander'
import type { z } from 'zod'
import { ApiEnv } from '../../contracts/api-env.ts'
import { EXIT } from '../exit-status.ts'
import { type ClientConfig, readClientConfig } from '../service/client-config.ts'
import { facts, table } from '../terminal/table.ts'
import {
  type CliContext,
  connectionFlags,
  newServiceCommand,
  parseOptions,
  ServiceOptions,
} from './command.ts'

const SECRETS = new Set(['DATABASE_URL', 'OPENAI_API_KEY', 'COPILOT_GITHUB_TOKEN'])

type Setting = {
  readonly key: string
  readonly value: string
  readonly isSet: boolean
  readonly default: string
}

/** What a schema answers for a key that is not there. */
function defaultOf(schema: z.ZodType): string {
  const parsed = schema.safeParse(undefined)
  return parsed.success && parsed.data !== undefined ? String(parsed.data) : ''
}

/** Keys of the service's environment, with their defaults and with what this shell sets. */
function serviceSettings(env: Readonly<Record<string, string | undefined>>): Setting[] {
  return Object.entries(ApiEnv.shape).map(([key, schema]) => {
    const given = env[key]
    const preset = defaultOf(schema)
    const value = given === undefined ? preset : SECRETS.has(key) ? '(set, not shown)' : given
    return { key, value, isSet: given !== undefined, default: preset }
  })
}

const clientFacts = (config: ClientConfig): (readonly [string, string, string])[] => [
  ['url', config.url.value, config.url.from],
  ['api key', config.apiKey.value ? `${config.apiKey.value.slice(0, 4)}…` : 'none', config.apiKey.from],
  [
    'state folder',
    config.stateDir?.value ?? 'none',
    config.stateDir?.from ?? 'no .agentweaver here or above',
  ],
]

export function configCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'config',
    about: 'Show what this command uses and where each value comes from, and the keys of the service.',
    example: 'agentweaver config',
  })
  command.action(() => {
    const options = parseOptions(ServiceOptions, command)
    const { terminal } = context
    const { paint, width, io } = terminal
    const client = clientFacts(readClientConfig(connectionFlags(options), io))
    const service = serviceSettings(io.env)
    if (options.json) {
      const entries = client.map(([name, value, from]) => [name, { value, from }])
      terminal.json({ client: Object.fromEntries(entries), service })
    } else {
      terminal.print([
        paint.bold('This command'),
        ...facts(
          client.map(([name, value, from]) => [name, `${value}  ${paint.dim(from)}`]),
          paint,
        ),
        '',
        paint.bold('The service reads these keys from its environment'),
        ...table(
          service,
          [
            { title: 'KEY', value: ({ key }) => key },
            { title: 'FROM', value: ({ isSet }) => (isSet ? 'this shell' : 'default') },
            { title: 'VALUE', value: ({ value }) => value || '(none)' },
          ],
          { paint, width },
        ),
      ])
    }
    context.exit(EXIT.ok)
  })
  return command
}
