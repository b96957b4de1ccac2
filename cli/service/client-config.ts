import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { API_KEY_FILE, SERVICE_FILE } from '../../contracts/api-env.ts'
import { API_PORT } from '../../contracts/ports.ts'
import type { EnvSource } from '../../runtime/kit/parse-env.ts'
import { usageError } from '../cli-error.ts'
import {
  findStateFolder,
  type IgnoredFolder,
  readStateFolders,
  STATE_FOLDER,
  type StateFolder,
} from './state-folder.ts'

export interface ConnectionFlags {
  readonly url?: string
  readonly apiKey?: string
}

/** A value and where it comes from, for people. */
type Sourced<T> = { readonly value: T; readonly from: string }

/** Where the service is and how to log in to it. */
export interface ClientConfig {
  readonly url: Sourced<string>
  /** Somebody named the service: nothing is started in its place. */
  readonly isUrlChosen: boolean
  readonly apiKey: Sourced<string | undefined>
  readonly stateDir: Sourced<string> | undefined
  /** Where the folder's service says that it listens, as long as it runs. */
  readonly serviceUrl: string | undefined
  /** What looks like a state folder and is not believed. */
  readonly ignored: readonly IgnoredFolder[]
  /** Where a service that is started for one command keeps its state if no folder was found. */
  readonly ownStateDir: string
  readonly home: string
}

function checkedUrl({ value, from }: Sourced<string>): Sourced<string> {
  const url = URL.parse(value)
  if (url && /^https?:$/.test(url.protocol)) return { value: url.href.replace(/\/+$/, ''), from }
  throw usageError(`The service's address is not an http or https URL: ${value} (${from})`)
}

function chooseUrl(flags: ConnectionFlags, env: EnvSource): Sourced<string> | undefined {
  if (flags.url !== undefined) return { value: flags.url, from: '--url' }
  const fromEnv = env['AGENTWEAVER_URL']
  return fromEnv === undefined ? undefined : { value: fromEnv, from: 'AGENTWEAVER_URL' }
}

type Given = {
  readonly flags: ConnectionFlags
  readonly env: EnvSource
  readonly folder: StateFolder | undefined
}

function chooseKey({ flags, env, folder }: Given): Sourced<string | undefined> {
  if (flags.apiKey !== undefined) return { value: flags.apiKey, from: '--api-key' }
  const fromEnv = env['AGENTWEAVER_API_KEY']
  if (fromEnv !== undefined) return { value: fromEnv, from: 'AGENTWEAVER_API_KEY' }
  if (folder === undefined) return { value: undefined, from: 'not found' }
  return { value: folder.apiKey, from: join(folder.path, API_KEY_FILE) }
}

/**
 * Where `npm start` listens in a shell like this one. A folder names the service of its own key only: a key that
 * was given is never sent to an address that was not.
 */
function likelyUrl({ flags, env, folder }: Given): Sourced<string> {
  const port = env['AGENTWEAVER_PORT']
  const isKeyGiven = flags.apiKey !== undefined || env['AGENTWEAVER_API_KEY'] !== undefined
  if (port === undefined && folder?.serviceUrl !== undefined && !isKeyGiven)
    return { value: folder.serviceUrl, from: join(folder.path, SERVICE_FILE) }
  return {
    value: `http://127.0.0.1:${port ?? API_PORT}`,
    from: port === undefined ? 'default' : 'AGENTWEAVER_PORT',
  }
}

/** Flags first, then the environment, then the nearest state folder, then the default address. */
export function readClientConfig(
  flags: ConnectionFlags,
  { env, cwd }: { env: EnvSource; cwd: string },
): ClientConfig {
  const home = env['HOME'] || homedir()
  const named = env['AGENTWEAVER_STATE_DIR']
  const ownStateDir = named ? resolve(cwd, named) : join(home, STATE_FOLDER)
  const { folder, ignored } = named
    ? readStateFolders([{ path: ownStateDir, from: 'AGENTWEAVER_STATE_DIR' }], home)
    : findStateFolder(cwd, home)
  const chosen = chooseUrl(flags, env)
  return {
    url: checkedUrl(chosen ?? likelyUrl({ flags, env, folder })),
    isUrlChosen: chosen !== undefined,
    apiKey: chooseKey({ flags, env, folder }),
    stateDir: folder && { value: folder.path, from: folder.from },
    serviceUrl: folder?.serviceUrl,
    ignored,
    ownStateDir,
    home,
  }
}
