import { homedir } from 'node:os'
import type { TokenSource } from '../../runtime/client/transport.ts'
import type { EnvSource } from '../../runtime/kit/parse-env.ts'
import { type EarlierFolders, findEarlierFolders } from '../../runtime/state-folder/earlier-folder.ts'
import { configDirOf, stateDirOf } from '../../runtime/state-folder/places.ts'
import { type SocketPlace, socketPlaceOf } from '../../runtime/state-folder/socket-place.ts'
import { createTokenSource } from '../sign-in/token-source.ts'
import { loginFile, readLogin } from './logins.ts'
import { originOf, type Sourced } from './service-url.ts'

export interface ConnectionFlags {
  readonly url?: string
}

/** A service at a URL, and the key that the user gave for that URL, or the tokens of a sign-in there. */
export interface NamedService {
  readonly url: Sourced<string>
  readonly apiKey: Sourced<string | TokenSource | undefined>
}

export interface ClientConfig {
  /** Undefined for the user's own service, which is reached over its socket. */
  readonly named: NamedService | undefined
  /** AGENTWEAVER_API_KEY is set without AGENTWEAVER_URL. */
  readonly hasStrayKey: boolean
  readonly stateDir: Sourced<string>
  readonly socket: SocketPlace
  readonly configDir: string
  /** State folders of earlier versions. */
  readonly earlier: EarlierFolders
  readonly home: string
}

function chooseUrl(flags: ConnectionFlags, env: EnvSource): Sourced<string> | undefined {
  if (flags.url !== undefined) return { value: flags.url, from: '--url' }
  const fromEnv = env['AGENTWEAVER_URL']
  return fromEnv ? { value: fromEnv, from: 'AGENTWEAVER_URL' } : undefined
}

type Sources = { readonly env: EnvSource; readonly configDir: string }

/** A key is used only for its URL: AGENTWEAVER_URL for the key in the environment, or the URL of a login. */
function keyFor(origin: string, { env, configDir }: Sources): NamedService['apiKey'] {
  const [url, key] = [env['AGENTWEAVER_URL'], env['AGENTWEAVER_API_KEY']]
  if (url && key && originOf({ value: url, from: 'AGENTWEAVER_URL' }) === origin)
    return { value: key, from: 'AGENTWEAVER_API_KEY' }
  const login = readLogin(configDir, origin)
  if (login === undefined) return { value: undefined, from: 'not found' }
  const from = loginFile(configDir, origin)
  if (login.kind === 'key') return { value: login.apiKey, from }
  return { value: createTokenSource({ configDir, origin, env }, login.tokens), from }
}

function nameService(chosen: Sourced<string>, sources: Sources): NamedService {
  const value = originOf(chosen)
  return { url: { value, from: chosen.from }, apiKey: keyFor(value, sources) }
}

/** Uses the URL of a flag or of the environment; otherwise the user's own service. */
export function readClientConfig(
  flags: ConnectionFlags,
  { env, cwd }: { env: EnvSource; cwd: string },
): ClientConfig {
  const home = env['HOME'] || homedir()
  const configDir = configDirOf({ env, home })
  const stateDir = stateDirOf({ env, home, cwd })
  const chosen = chooseUrl(flags, env)
  const isNamed = Boolean(env['AGENTWEAVER_STATE_DIR'])
  const earlier = findEarlierFolders(cwd, home)
  return {
    named: chosen && nameService(chosen, { env, configDir }),
    hasStrayKey: Boolean(env['AGENTWEAVER_API_KEY']) && !env['AGENTWEAVER_URL'],
    stateDir: { value: stateDir, from: isNamed ? 'AGENTWEAVER_STATE_DIR' : 'default' },
    socket: socketPlaceOf(stateDir, env),
    configDir,
    earlier: {
      found: earlier.found.filter((path) => path !== stateDir),
      ignored: earlier.ignored.filter(({ path }) => path !== stateDir),
    },
    home,
  }
}
