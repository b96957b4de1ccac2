import { existsSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { API_PORT } from '../../contracts/ports.ts'
import { errnoOf } from '../../runtime/kit/errors.ts'
import type { EnvSource } from '../../runtime/kit/parse-env.ts'
import { CliError, usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'

export const STATE_FOLDER = '.agentweaver'
export const API_KEY_FILE = 'api-key'

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
  readonly home: string
}

/**
 * The nearest state folder at or above `from`, else the one at home. It is known by its key: a repository has a
 * folder of the same name for its own settings.
 */
function findStateDir(from: string, home: string): Sourced<string> | undefined {
  const hasKey = (folder: string) => existsSync(join(folder, API_KEY_FILE))
  for (let folder = from; ; folder = dirname(folder)) {
    const candidate = join(folder, STATE_FOLDER)
    if (hasKey(candidate)) return { value: candidate, from: 'found at or above this folder' }
    if (dirname(folder) === folder) break
  }
  const atHome = join(home, STATE_FOLDER)
  return hasKey(atHome) ? { value: atHome, from: 'found at home' } : undefined
}

function readKey(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined
    throw new CliError(`The API key in ${file} cannot be read.`, {
      status: EXIT.unauthenticated,
      cause: error,
    })
  }
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

function chooseKey(given: { flags: ConnectionFlags; env: EnvSource; stateDir: string | undefined }) {
  if (given.flags.apiKey !== undefined) return { value: given.flags.apiKey, from: '--api-key' }
  const fromEnv = given.env['AGENTWEAVER_API_KEY']
  if (fromEnv !== undefined) return { value: fromEnv, from: 'AGENTWEAVER_API_KEY' }
  const file = given.stateDir && join(given.stateDir, API_KEY_FILE)
  const value = file === undefined ? undefined : readKey(file)
  return { value, from: value === undefined || file === undefined ? 'not found' : file }
}

/** Where `npm start` listens in a shell like this one. */
const defaultUrl = (port: string | undefined): Sourced<string> => ({
  value: `http://127.0.0.1:${port ?? API_PORT}`,
  from: port === undefined ? 'default' : 'AGENTWEAVER_PORT',
})

/** Flags first, then the environment, then the nearest state folder, then the default address. */
export function readClientConfig(
  flags: ConnectionFlags,
  { env, cwd }: { env: EnvSource; cwd: string },
): ClientConfig {
  const home = env['HOME'] || homedir()
  const stateDir = findStateDir(cwd, home)
  const chosen = chooseUrl(flags, env)
  return {
    url: checkedUrl(chosen ?? defaultUrl(env['AGENTWEAVER_PORT'])),
    isUrlChosen: chosen !== undefined,
    apiKey: chooseKey({ flags, env, stateDir: stateDir?.value }),
    stateDir,
    home,
  }
}
