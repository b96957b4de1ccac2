import { existsSync, realpathSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { type Client, createClient } from '../../runtime/client/client.ts'
import { EARLIER_NAME, hasState, undecidedWords } from '../../runtime/state-folder/earlier-folder.ts'
import type { Distrust } from '../../runtime/state-folder/private-folder.ts'
import { CliError, usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import type { Terminal } from '../terminal/terminal.ts'
import {
  type ClientConfig,
  type ConnectionFlags,
  type NamedService,
  readClientConfig,
} from './client-config.ts'
import { findOwnService, type OwnService } from './own-service.ts'
import { requireConfidential } from './service-url.ts'
import { spawnService } from './spawn-service.ts'

export interface Connection extends AsyncDisposable {
  readonly client: Client
  /** The service was started for this command and ends with it. */
  readonly isEmbedded: boolean
}

/**
 * `start` starts a service for this command where none runs; `open` does so only where a store of an earlier
 * one is there to look into; `require` never does.
 */
type WhenAbsent = 'start' | 'open' | 'require'

export interface Wish {
  readonly whenAbsent: WhenAbsent
  /** The folder that a run will name: whoever starts a service for it lets it be used. */
  readonly workspace?: string | undefined
}

/**
 * The service that the user named; otherwise this user's own one, over its socket. Only a key that the user gave for a
 * URL is sent to that URL: the key in the state folder never leaves the socket.
 */
export async function connect(
  terminal: Terminal,
  flags: ConnectionFlags,
  { whenAbsent, workspace }: Wish,
): Promise<Connection> {
  const config = readClientConfig(flags, terminal.io)
  refuseExposedKeys(config, workspace)
  if (config.named) return connectByUrl(config, config.named, terminal)
  if (config.hasStrayKey) throw strayKey()
  const own = await findOwnService({ stateDir: config.stateDir.value, socket: config.socket })
  if (own.kind === 'distrusted') throw distrusted(own.why)
  if (own.kind === 'running') return connectToSocket(own, config)
  const mayStart = whenAbsent === 'start' || (whenAbsent === 'open' && hasState(config.stateDir.value))
  if (mayStart) return embed(terminal, config, workspace)
  throw new CliError('No service is running.', {
    status: EXIT.unreachable,
    hint: 'Start one with "agentweaver serve", or name another with --url or AGENTWEAVER_URL.',
  })
}

const keep = (client: Client): Connection => ({
  client,
  isEmbedded: false,
  [Symbol.asyncDispose]: async () => undefined,
})

function connectByUrl(
  { hasStrayKey }: ClientConfig,
  { url, apiKey }: NamedService,
  { io }: Terminal,
): Connection {
  requireConfidential(url.value, io.env)
  if (apiKey.value) return keep(createClient({ url: url.value, apiKey: apiKey.value }))
  const stray = hasStrayKey
    ? ['AGENTWEAVER_API_KEY is not sent there: AGENTWEAVER_URL does not name it.']
    : []
  throw new CliError([`There is no API key for the service at ${url.value}.`, ...stray].join('\n'), {
    status: EXIT.unauthenticated,
    hint: `Give it with "agentweaver login --url ${url.value}", or set AGENTWEAVER_URL and AGENTWEAVER_API_KEY together.`,
  })
}

const strayKey = (): CliError =>
  usageError(
    'AGENTWEAVER_API_KEY is set and AGENTWEAVER_URL is not: a key is sent only to the URL that it was given for.',
    'Set both for a service at a URL, or neither for your own service of this machine.',
  )

const distrusted = (why: Distrust): CliError =>
  new CliError(why.message, {
    status: EXIT.refused,
    hint: 'If it is yours, "agentweaver serve" makes it private again; otherwise remove it, or name another folder with AGENTWEAVER_STATE_DIR.',
    cause: why,
  })

function connectToSocket(
  { socketPath, apiKey }: Extract<OwnService, { kind: 'running' }>,
  { stateDir }: ClientConfig,
): Connection {
  if (apiKey) return keep(createClient({ socketPath, apiKey }))
  throw new CliError(`There is no API key in ${stateDir.value}; the store has keys of its own.`, {
    status: EXIT.unauthenticated,
    hint: 'Use one of them: agentweaver login --url with the URL that "agentweaver serve" printed.',
  })
}

/** Whether a folder that is there lies in the folder that an agent will work in. */
const isInside = (folder: string, workspace: string): boolean =>
  existsSync(folder) && !/^\.\.(?:\/|$)/.test(relative(realpathSync(workspace), realpathSync(folder)))

/**
 * An agent that reads a key could approve what it asks for. A folder of an earlier version counts too, and also one that
 * is not believed: what is in it may be a copy of the real one.
 */
function refuseExposedKeys(config: ClientConfig, workspace: string | undefined): void {
  if (workspace === undefined) return
  const { stateDir, configDir, earlier } = config
  const current = [stateDir.value, configDir].find((folder) => isInside(folder, workspace))
  if (current !== undefined)
    throw usageError(
      `The workspace contains the folder for the keys of a service: ${current}`,
      'Name another workspace, or another state folder with AGENTWEAVER_STATE_DIR.',
    )
  const inWorkspace = join(resolve(workspace), EARLIER_NAME)
  const earlierOnes = [...earlier.found, ...earlier.ignored.map(({ path }) => path)]
  const exposed = hasState(inWorkspace) ? inWorkspace : earlierOnes.find((path) => isInside(path, workspace))
  if (exposed === undefined) return
  throw usageError(
    `The workspace contains the keys of a service: ${exposed}`,
    `Move them with "agentweaver move-state ${exposed}", or remove them if they are not yours.`,
  )
}

async function embed(
  terminal: Terminal,
  config: ClientConfig,
  workspace: string | undefined,
): Promise<Connection> {
  const { env, cwd } = terminal.io
  const stateDir = config.stateDir.value
  refuseUndecided(config)
  const words = `No service is running; starting one for this command (store: ${stateDir}).`
  terminal.note(terminal.notePaint.dim(words))
  terminal.progress.waitFor('starting the service')
  const roots = [env['AGENTWEAVER_WORKSPACE_ROOTS'] ?? config.home, workspace]
  const service = await spawnService({
    env,
    cwd,
    onDeath: (how) => terminal.note(`The service that was started for this command is gone: ${how}`),
    settings: {
      AGENTWEAVER_STATE_DIR: stateDir,
      AGENTWEAVER_WORKSPACE_ROOTS: roots.filter((root) => root !== undefined).join(':'),
    },
  })
  terminal.progress.clear()
  return {
    client: service.client,
    isEmbedded: true,
    async [Symbol.asyncDispose]() {
      terminal.progress.waitFor('stopping the service')
      await service.stop()
      terminal.progress.clear()
    },
  }
}

/** A new store beside an earlier one could never be merged with it, so the person decides first. */
function refuseUndecided({ stateDir, earlier }: ClientConfig): void {
  const isDecided = stateDir.from !== 'default' || earlier.found.length === 0 || hasState(stateDir.value)
  if (!isDecided) throw usageError(undecidedWords(earlier.found, stateDir.value))
}
