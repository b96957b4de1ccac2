import { join } from 'node:path'
import {
  EGRESS_ENVIRONMENT_FILE,
  type EgressDestination,
  type EgressEnvironment,
  type EgressGeneration,
} from '../../../contracts/egress.ts'
import { replaceFile } from '../../state-folder/replace-file.ts'
import type { Credentials } from '../credentials/credentials.ts'

/** What the commands of a run hold instead of credentials. */
export interface RunCredentials {
  forRun(
    runId: string,
    destinations: readonly EgressDestination[],
  ): {
    readonly placeholders: NonNullable<EgressGeneration['placeholders']>
    readonly environment: EgressEnvironment
  }
  /** Returns the value of a credential. */
  readonly read: (credential: string) => Promise<string>
}

/** Git needs a user name, and servers that accept tokens ignore it. */
const GIT_USER = 'x-access-token'

/** Placeholders that are remembered. The state of a cluster's proxies needs each of them several times a second. */
const MAX_REMEMBERED = 4096

export function createRunCredentials(
  credentials: Pick<Credentials, 'read' | 'placeholderOf' | 'variableOf'>,
  key: Uint8Array,
): RunCredentials {
  const remembered = new Map<string, string>()
  const derive = (runId: string, credential: string): string => {
    const name = `${runId} ${credential}`
    const known = remembered.get(name)
    if (known !== undefined) return known
    const value = credentials.placeholderOf(key, { runId, caller: 'commands', credential })
    if (remembered.size >= MAX_REMEMBERED) remembered.clear()
    remembered.set(name, value)
    return value
  }
  return {
    read: (credential) => credentials.read(credential),
    forRun(runId, destinations) {
      const ids = [...new Set(destinations.flatMap(({ credential }) => credential ?? []))]
      const placeholders = ids.map((credential) => ({ credential, value: derive(runId, credential) }))
      const placeholderOf = (id: string) =>
        placeholders.find(({ credential }) => credential === id)?.value ?? ''
      const variables = ids.flatMap((id) => {
        const name = credentials.variableOf(id)
        return name === undefined ? [] : [[name, placeholderOf(id)] as const]
      })
      const gitConfig = destinations.flatMap((destination) =>
        destination.credential === undefined || !isForGit(destination)
          ? []
          : gitHeaders(destination, placeholderOf(destination.credential)),
      )
      if (destinations.some(mayPush)) variables.push([BRANCH_PREFIX, `agentweaver/${runId}/`])
      return { placeholders, environment: { variables: Object.fromEntries(variables), gitConfig } }
    },
  }
}

/** In this variable, commands find the beginning of the names of branches that the run may push. */
const BRANCH_PREFIX = 'AGENTWEAVER_BRANCH_PREFIX'

const mayPush = ({ credential, requests = [] }: EgressDestination): boolean =>
  credential !== undefined &&
  requests.some(({ paths }) => paths.some((path) => path.endsWith('/git-receive-pack')))

const isForGit = ({ requests = [] }: EgressDestination): boolean =>
  requests.some(({ paths }) => paths.some((path) => path.endsWith('/git-upload-pack')))

/** Git sends the header at once. With a credential helper, each operation would begin with a refused request. */
function gitHeaders({ host, ports }: EgressDestination, placeholder: string): [string, string][] {
  const header = `Authorization: Basic ${Buffer.from(`${GIT_USER}:${placeholder}`).toString('base64')}`
  return ports.map((port) => [`http.https://${host}${port === 443 ? '' : `:${port}`}/.extraHeader`, header])
}

/** Writes the variables of commands with network access, where the executor of the sandbox reads them. */
export const writeEnvironment = (folder: string, environment: EgressEnvironment): Promise<void> =>
  replaceFile(join(folder, EGRESS_ENVIRONMENT_FILE), JSON.stringify(environment))
