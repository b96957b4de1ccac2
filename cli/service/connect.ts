import { join, resolve, sep } from 'node:path'
import { API_ROUTES } from '../../contracts/routes.ts'
import { type Client, createClient } from '../../runtime/client/client.ts'
import { CliError, usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { type ClientConfig, type ConnectionFlags, readClientConfig, STATE_FOLDER } from './client-config.ts'
import { spawnService } from './spawn-service.ts'

const PROBE_TIMEOUT_MS = 2000

export interface Connection extends AsyncDisposable {
  readonly client: Client
  readonly url: string
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

/** Whether anything that speaks HTTP listens there. */
export async function answers(url: string): Promise<boolean> {
  try {
    const answer = await fetch(new URL(API_ROUTES.healthz, url), {
      signal: AbortSignal.timeout(PROBE_TIMEOUT_MS),
    })
    await answer.body?.cancel()
    return true
  } catch (error) {
    if (error instanceof TypeError || (error instanceof Error && error.name === 'TimeoutError')) return false
    throw error
  }
}

/** Finds the service, or starts one for this command where that makes sense. */
export async function connect(
  terminal: Terminal,
  flags: ConnectionFlags,
  { whenAbsent, workspace }: Wish,
): Promise<Connection> {
  const config = readClientConfig(flags, terminal.io)
  if (config.isUrlChosen || (await answers(config.url.value))) {
    refuseExposedKeys(config, workspace)
    return connectTo(config)
  }
  const mayStart = whenAbsent === 'start' || (whenAbsent === 'open' && config.stateDir !== undefined)
  if (mayStart) return embed(terminal, config, workspace)
  throw new CliError(`No service listens at ${config.url.value}.`, {
    status: EXIT.unreachable,
    hint: 'Start one with "npm start", or name another with --url or AGENTWEAVER_URL.',
  })
}

function connectTo(config: ClientConfig): Connection {
  const apiKey = config.apiKey.value
  if (!apiKey) {
    throw new CliError(`There is no API key for the service at ${config.url.value}.`, {
      status: EXIT.unauthenticated,
      hint: 'Give it with --api-key or AGENTWEAVER_API_KEY, or work in the folder that has .agentweaver/api-key.',
    })
  }
  const url = config.url.value
  return {
    client: createClient({ url, apiKey }),
    url,
    isEmbedded: false,
    [Symbol.asyncDispose]: async () => undefined,
  }
}

/** Whether the keys of a service lie in the folder that an agent will work in. */
const isExposed = (stateDir: string | undefined, workspace: string | undefined): boolean =>
  stateDir !== undefined &&
  workspace !== undefined &&
  `${stateDir}${sep}`.startsWith(`${resolve(workspace)}${sep}`)

/** An agent that reads the service's key could approve what it asks for. */
function refuseExposedKeys({ stateDir }: ClientConfig, workspace: string | undefined): void {
  if (stateDir === undefined || !isExposed(stateDir.value, workspace)) return
  throw usageError(
    `The workspace contains the keys of the service: ${stateDir.value}`,
    'Start the service in another folder, or give it another one with AGENTWEAVER_STATE_DIR.',
  )
}

/** A store that no agent gets to see: never one that lies in the folder that the agent works in. */
function chooseStateDir(config: ClientConfig, workspace: string | undefined): string {
  const found = config.stateDir?.value
  return found === undefined || isExposed(found, workspace) ? join(config.home, STATE_FOLDER) : found
}

async function embed(
  terminal: Terminal,
  config: ClientConfig,
  workspace: string | undefined,
): Promise<Connection> {
  const { env, cwd } = terminal.io
  const stateDir = chooseStateDir(config, workspace)
  terminal.note(
    terminal.notePaint.dim(`No service is running; starting one for this command (store: ${stateDir}).`),
  )
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
    client: createClient({ url: service.url, apiKey: service.apiKey }),
    url: service.url,
    isEmbedded: true,
    async [Symbol.asyncDispose]() {
      terminal.progress.waitFor('stopping the service')
      await service.stop()
      terminal.progress.clear()
    },
  }
}
