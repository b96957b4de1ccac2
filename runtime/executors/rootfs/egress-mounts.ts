import { realpathSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { EGRESS_RELAY_PORT, EGRESS_SOCKET } from '../../../contracts/egress.ts'
import { gitEnvironment, javaOptions, MAVEN_ARGUMENTS } from '../../../policies/agent/egress/trust-table.ts'
import { NO_RUN_ENVIRONMENT, type RunEnvironment, runEnvironmentReader } from './egress-environment.ts'
import { bindReadOnly, type Mount } from './mounts.ts'
import { relayProgram } from './relay-program.ts'
import { type Trust, trustReader } from './trust.ts'

/** Where a command with network access sees the relay, the Node that runs it, and the folder of the proxy's socket. */
const FOLDER = '/agentweaver'
const NODE = `${FOLDER}/node`
const SOCKETS = `${FOLDER}/${EGRESS_SOCKET.folder}`

/** Where commands see the certificates that Java trusts. */
const JAVA_TRUST_STORE = `${FOLDER}/java-trust-store.jks`

type Environment = Readonly<Record<string, string>>

/** How the commands of an executor reach the network. */
export interface Egress {
  readonly mounts: readonly Mount[]
  /** The program of the relay and its arguments, as the sandbox sees them. */
  readonly relay: readonly string[]
  readonly trust: () => Trust | undefined
  readonly ofRun: () => RunEnvironment
}

/**
 * Prepares how commands in the new root reach the egress proxy. The folder is mounted, not the socket, so that commands
 * also reach a proxy that was started again. Undefined if the service has no proxy for this sandbox.
 */
export async function prepareEgress(root: string, folder: string | undefined): Promise<Egress | undefined> {
  if (folder === undefined) return undefined
  const { text, extension } = relayProgram()
  const program = `${FOLDER}/relay${extension}`
  await mkdir(join(root, SOCKETS), { recursive: true })
  await writeFile(join(root, program), text)
  // The mount point.
  await writeFile(join(root, NODE), '')
  const real = realpathSync(folder)
  return {
    mounts: [bindReadOnly(realpathSync(process.execPath), NODE), bindReadOnly(real, SOCKETS)],
    relay: [NODE, ...QUIET_NODE, program, join(SOCKETS, EGRESS_SOCKET.name), String(EGRESS_RELAY_PORT)],
    trust: trustReader({ root, folder: real, shownFolder: SOCKETS, javaTrustStore: JAVA_TRUST_STORE }),
    ofRun: runEnvironmentReader(real),
  }
}

/** The access of one command to the network. */
export interface EgressAccess {
  readonly mounts: readonly Mount[]
  readonly relay: readonly string[]
  readonly environment: Environment
}

/**
 * The access of one command, and its complete environment. Undefined if it asks for network access and there is no
 * proxy.
 */
export function accessOf(
  { network }: { readonly network: boolean },
  egress: Egress | undefined,
  environment: Environment,
): EgressAccess | undefined {
  if (!network) return { mounts: [], relay: [], environment }
  if (!egress) return undefined
  const trust = egress.trust()
  return {
    mounts: [...egress.mounts, ...(trust?.mounts ?? [])],
    relay: egress.relay,
    environment: { ...environment, ...networkEnvironment(environment, trust, egress.ofRun()) },
  }
}

/** The variables that programs read to find the proxy and the certificates that they trust. */
export const networkEnvironment = (
  environment: Environment,
  trust: Pick<Trust, 'variables' | 'javaTrustStore'> | undefined,
  { variables, gitConfig }: RunEnvironment = NO_RUN_ENVIRONMENT,
): Environment => ({
  ...variables,
  ...PROXY_ENVIRONMENT,
  ...gitEnvironment(Number(environment['GIT_CONFIG_COUNT'] ?? 0), gitConfig),
  JAVA_TOOL_OPTIONS: javaOptions(EGRESS_RELAY_PORT, trust?.javaTrustStore),
  MAVEN_ARGS: MAVEN_ARGUMENTS,
  ...trust?.variables,
})

/** The relay holds little data, and needs no threads. */
const QUIET_NODE = ['--disable-warning=ExperimentalWarning', '--max-old-space-size=64', '--v8-pool-size=0']

const PROXY = `http://127.0.0.1:${EGRESS_RELAY_PORT}`
const OWN_HOSTS = 'localhost,127.0.0.1,::1'

/** Many programs read only one of the two spellings. */
const PROXY_ENVIRONMENT: Environment = {
  HTTP_PROXY: PROXY,
  HTTPS_PROXY: PROXY,
  ALL_PROXY: PROXY,
  NO_PROXY: OWN_HOSTS,
  http_proxy: PROXY,
  https_proxy: PROXY,
  all_proxy: PROXY,
  no_proxy: OWN_HOSTS,
  /** `fetch` and `http` of Node read the other variables only with this one. */
  NODE_USE_ENV_PROXY: '1',
}

export const NO_EGRESS =
  'this sandbox has no egress proxy, so its commands have no network access; run the command without it'
