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
  /** The service was started for this command and stops with it. */
  readonly isEmbedded: boolean
  /** The user's own service on this machine, so that paths mean the same folders to both. */
  readonly isOwn: boolean
}

/**
 * What to do without a running service. `start`: start one for this command. `open`: start one only if a store exists.
 * `require`: fail.
 */
type WhenAbsent = 'start' | 'open' | 'require'

export interface Wish {
  readonly whenAbsent: WhenAbsent
  /** The run's folder. A service that is started for this command may use it in addition to its roots. */
  readonly workspace?: string | undefined
}

/**
 * Connects to the service at a URL, or to the user's own service over its socket. Only a key that the user gave for a URL
 * is sent to that URL. The key in the state folder is used on the socket only.
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

const keep = (client: Client, isOwn: boolean): Connection => ({
  client,
  isEmbedded: false,
  isOwn,
  [Symbol.asyncDispose]: async () => undefined,
})

function connectByUrl(
  { hasStrayKey }: ClientConfig,
  { url, apiKey }: NamedService,
  { io }: Terminal,
): Connection {
  requireConfidential(url.value, io.env)
  if (apiKey.value) return keep(createClient({ url: url.value, apiKey: apiKey.value }), false)
  const stray = hasStrayKey
    ? ['AGENTWEAVER_API_KEY is not sent there, because AGENTWEAVER_URL does not name it.']
    : []
  throw new CliError([`There is no login for the service at ${url.value}.`, ...stray].join('\n'), {
    status: EXIT.unauthenticated,
    hint: `Log in with "agentweaver login --url ${url.value}", or set AGENTWEAVER_URL and AGENTWEAVER_API_KEY together.`,
  })
}

const strayKey = (): CliError =>
  usageError(
    'AGENTWEAVER_API_KEY is set without AGENTWEAVER_URL. A key is sent only to the URL that it was given for.',
    'Set both for a service at a URL, or neither for your own service on this machine.',
  )

const distrusted = (why: Distrust): CliError =>
  new CliError(why.message, {
    status: EXIT.refused,
    hint: 'If the folder is yours, "agentweaver serve" restores its permissions. Otherwise remove it, or set AGENTWEAVER_STATE_DIR to another folder.',
    cause: why,
  })

function connectToSocket(
  { socketPath, apiKey }: Extract<OwnService, { kind: 'running' }>,
  { stateDir }: ClientConfig,
): Connection {
  if (apiKey) return keep(createClient({ socketPath, apiKey }), true)
  throw new CliError(`There is no API key in ${stateDir.value}, although the store has API keys.`, {
    status: EXIT.unauthenticated,
    hint: 'Use one of them: agentweaver login --url with the URL that "agentweaver serve" printed.',
  })
}

/** Whether an existing folder is inside the workspace. */
const isInside = (folder: string, workspace: string): boolean =>
  existsSync(folder) && !/^\.\.(?:\/|$)/.test(relative(realpathSync(workspace), realpathSync(folder)))

/**
 * An agent that reads an API key could approve its own requests, so the workspace must not contain one. This includes
 * folders of earlier versions and ignored folders, which may be copies of real ones.
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
  const words = `No service is running. Starting one for this command (store: ${stateDir}).`
  terminal.note(terminal.notePaint.dim(words))
  terminal.progress.waitFor('starting the service')
  const roots = [env['AGENTWEAVER_WORKSPACE_ROOTS'] ?? config.home, workspace]
  const service = await spawnService({
    env,
    cwd,
    onDeath: (how) => terminal.note(`The service that was started for this command has ended: ${how}`),
    settings: {
      AGENTWEAVER_STATE_DIR: stateDir,
      AGENTWEAVER_WORKSPACE_ROOTS: roots.filter((root) => root !== undefined).join(':'),
    },
  })
  terminal.progress.clear()
  return {
    client: service.client,
    isEmbedded: true,
    isOwn: true,
    async [Symbol.asyncDispose]() {
      terminal.progress.waitFor('stopping the service')
      await service.stop()
      terminal.progress.clear()
    },
  }
}

/** A new store could never be merged with an earlier one, so the person decides first. */
function refuseUndecided({ stateDir, earlier }: ClientConfig): void {
  const isDecided = stateDir.from !== 'default' || earlier.found.length === 0 || hasState(stateDir.value)
  if (!isDecided) throw usageError(undecidedWords(earlier.found, stateDir.value))
}
