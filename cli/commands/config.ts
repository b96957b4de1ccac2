import { join } from 'node:path'
import type { Command } from 'commander'
import type { z } from 'zod'
import { API_KEY_FILE, ApiEnv } from '../../contracts/api-env.ts'
import type { TokenSource } from '../../runtime/client/transport.ts'
import type { EnvSource } from '../../runtime/kit/parse-env.ts'
import { defaultStateDir } from '../../runtime/state-folder/places.ts'
import { EXIT } from '../exit-status.ts'
import { type ClientConfig, readClientConfig } from '../service/client-config.ts'
import { findOwnService, type OwnService } from '../service/own-service.ts'
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

/** The schema's default for a missing key. */
function defaultOf(schema: z.ZodType): string {
  const parsed = schema.safeParse(undefined)
  return parsed.success && parsed.data !== undefined ? String(parsed.data) : ''
}

/** The service's environment variables with their defaults and the values in this shell. */
function serviceSettings(env: EnvSource, { home }: ClientConfig): Setting[] {
  return Object.entries(ApiEnv.shape).map(([key, schema]) => {
    const given = env[key]
    const preset = key === 'AGENTWEAVER_STATE_DIR' ? defaultStateDir({ env, home }) : defaultOf(schema)
    const value = given === undefined ? preset : SECRETS.has(key) ? '(set, not shown)' : given
    return { key, value, isSet: given !== undefined, default: preset }
  })
}

type Fact = readonly [name: string, value: string, from: string]

async function clientFacts(config: ClientConfig): Promise<Fact[]> {
  const { named, stateDir } = config
  const state: Fact = ['state folder', stateDir.value, stateDir.from]
  if (named) {
    const { url, apiKey } = named
    return [['url', url.value, url.from], ['api key', keyWords(apiKey.value), apiKey.from], state]
  }
  const own = await findOwnService({ stateDir: stateDir.value, socket: config.socket })
  const key = own.kind === 'running' ? own.apiKey : undefined
  return [
    ['socket', config.socket.path, ownWords(own)],
    ['api key', keyWords(key), key === undefined ? 'not found' : join(stateDir.value, API_KEY_FILE)],
    state,
  ]
}

const keyWords = (key: string | TokenSource | undefined): string => {
  if (typeof key === 'object') return '(signed in)'
  return key ? `${key.slice(0, 4)}…` : 'none'
}

function ownWords(own: OwnService): string {
  if (own.kind === 'distrusted') return own.why.message
  return own.kind === 'running'
    ? 'your own service, which is running'
    : 'your own service, which is not running'
}

const earlierFacts = ({ earlier }: ClientConfig): Fact[] => [
  ...earlier.found.map(
    (path): Fact => ['not used', path, 'state of an earlier version; "agentweaver move-state" moves it'],
  ),
  ...earlier.ignored.map(({ path, reason }): Fact => ['not used', path, reason]),
]

export function configCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'config',
    about:
      'Show the settings of the command line, where each value comes from, and the settings of the service.',
    example: 'agentweaver config',
  })
  command.action(async () => {
    const options = parseOptions(ServiceOptions, command)
    const { terminal } = context
    const { paint, width, io } = terminal
    const config = readClientConfig(connectionFlags(options), io)
    const client = await clientFacts(config)
    const service = serviceSettings(io.env, config)
    if (options.json) {
      const entries = client.map(([name, value, from]) => [name, { value, from }])
      terminal.json({ client: Object.fromEntries(entries), earlier: config.earlier, service })
    } else {
      terminal.print([
        paint.bold('This command'),
        ...facts(
          [...client, ...earlierFacts(config)].map(([name, value, from]) => [
            name,
            `${value}  ${paint.dim(from)}`,
          ]),
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
