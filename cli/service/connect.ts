import { join } from 'node:path'
import { API_ROUTES } from '../../contracts/routes.ts'
import { type Client, createClient } from '../../runtime/client/client.ts'
import { CliError } from '../cli-error.ts'
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
export type WhenAbsent = 'start' | 'open' | 'require'

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
  whenAbsent: WhenAbsent,
): Promise<Connection> {
  const config = readClientConfig(flags, terminal.io)
  if (config.isUrlChosen || (await answers(config.url.value))) return connectTo(config)
  const mayStart = whenAbsent === 'start' || (whenAbsent === 'open' && config.stateDir !== undefined)
  if (mayStart) return embed(terminal, config)
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

async function embed(terminal: Terminal, config: ClientConfig): Promise<Connection> {
  const stateDir = config.stateDir?.value ?? join(terminal.io.cwd, STATE_FOLDER)
  terminal.note(
    terminal.notePaint.dim(`No service is running; starting one for this command (store: ${stateDir}).`),
  )
  terminal.progress.waitFor('starting the service')
  const { env, cwd } = terminal.io
  const service = await spawnService({ env, cwd, settings: { AGENTWEAVER_STATE_DIR: stateDir } })
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
