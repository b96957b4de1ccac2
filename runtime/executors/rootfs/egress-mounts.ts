import { realpathSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { EGRESS_RELAY_PORT, EGRESS_SOCKET } from '../../../contracts/egress.ts'
import { bindReadOnly, type Mount } from './mounts.ts'
import { relayProgram } from './relay-program.ts'

/** Where a command with network access sees the relay, the Node that runs it, and the folder of the proxy's socket. */
const FOLDER = '/agentweaver'
const NODE = `${FOLDER}/node`
const SOCKETS = `${FOLDER}/${EGRESS_SOCKET.folder}`

/** How a command reaches the network. */
export interface EgressAccess {
  readonly mounts: readonly Mount[]
  /** The program of the relay and its arguments, as the sandbox sees them. */
  readonly relay: readonly string[]
  readonly environment: Readonly<Record<string, string>>
}

/**
 * Prepares how commands in the new root reach the egress proxy. The folder is mounted, not the socket, so that commands
 * also reach a proxy that was started again. Undefined if the service has no proxy for this sandbox.
 */
export async function prepareEgress(
  root: string,
  folder: string | undefined,
): Promise<EgressAccess | undefined> {
  if (folder === undefined) return undefined
  const { text, extension } = relayProgram()
  const program = `${FOLDER}/relay${extension}`
  await mkdir(join(root, SOCKETS), { recursive: true })
  await writeFile(join(root, program), text)
  // The mount point.
  await writeFile(join(root, NODE), '')
  return {
    mounts: [bindReadOnly(realpathSync(process.execPath), NODE), bindReadOnly(realpathSync(folder), SOCKETS)],
    relay: [NODE, ...QUIET_NODE, program, join(SOCKETS, EGRESS_SOCKET.name), String(EGRESS_RELAY_PORT)],
    environment: PROXY_ENVIRONMENT,
  }
}

const NO_NETWORK: EgressAccess = { mounts: [], relay: [], environment: {} }

/** The access of one command. Undefined if it asks for network access and there is no proxy. */
export const accessOf = (
  { network }: { readonly network: boolean },
  egress: EgressAccess | undefined,
): EgressAccess | undefined => (network ? egress : NO_NETWORK)

/** The relay holds little data, and needs no threads. */
const QUIET_NODE = ['--disable-warning=ExperimentalWarning', '--max-old-space-size=64', '--v8-pool-size=0']

const PROXY = `http://127.0.0.1:${EGRESS_RELAY_PORT}`
const OWN_HOSTS = 'localhost,127.0.0.1,::1'

/** The variables that programs read to find the proxy. Many programs read only one of the two spellings. */
export const PROXY_ENVIRONMENT: Readonly<Record<string, string>> = {
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
