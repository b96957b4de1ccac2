import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { getCACertificates } from 'node:tls'
import type { AgentConfig } from '../../../contracts/agents.ts'
import type { OnModelWait } from '../../agents/model-waits.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import type { AzureSettings } from '../credential/azure-settings.ts'
import { AgentRelay } from './agent-relay.ts'

export interface WayOut {
  /** The environment of the agent runtime. */
  readonly runtimeEnv: Readonly<Record<string, string>>
  readonly azure: AzureSettings | undefined
  /** The servers can be reached when the first token has come, which is after the configuration. */
  readonly isOpenedLater: boolean
  close(): void
}

type Reach = {
  /** Private folder of the agent runtime. */
  readonly stateDir: string
  readonly runtimeEnv: Readonly<Record<string, string>>
  readonly azure?: AzureSettings | undefined
  readonly log: Log
}

type TokenParts = {
  readonly fetchToken: () => Promise<string>
  readonly learn: (value: string) => void
  readonly onWait: OnModelWait
}

/** How the agent and its credential reach their servers. Throws `configure_failed` if the way needs a proxy that is not set. */
export async function openWayOut(
  agent: AgentConfig,
  { stateDir, runtimeEnv, azure, log }: Reach,
  { fetchToken, learn, onWait }: TokenParts,
): Promise<WayOut> {
  if (!('proxyToken' in agent) || agent.proxyToken === undefined)
    return { runtimeEnv, azure, isOpenedLater: false, close: () => undefined }
  const { HTTPS_PROXY: proxy } = runtimeEnv
  const trusted =
    'proxyRoot' in agent && agent.proxyRoot !== undefined ? { root: agent.proxyRoot } : undefined
  if (proxy === undefined)
    throw new SandboxError(
      'configure_failed',
      `an agent of kind ${agent.kind} would connect through the egress proxy, and this AgentHost has no HTTPS_PROXY`,
    )
  const relay = new AgentRelay({ proxy: new URL(proxy), fetchToken, onWait, log })
  await relay.listen()
  learn(relay.password)
  return {
    runtimeEnv: {
      ...runtimeEnv,
      HTTPS_PROXY: relay.url,
      ...(trusted && { SSL_CERT_FILE: await writeTrust(stateDir, trusted.root, runtimeEnv) }),
    },
    azure: azure && { ...azure, identity: { ...azure.identity, proxy: relay.address } },
    isOpenedLater: true,
    close: () => relay.close(),
  }
}

/** The agent runtime reads one file of certificates: those that it trusts otherwise, and the authority of the egress proxy. */
async function writeTrust(folder: string, root: string, env: Reach['runtimeEnv']): Promise<string> {
  const { SSL_CERT_FILE: given, NODE_EXTRA_CA_CERTS: extra } = env
  const files = [given, extra].filter((file) => file !== undefined)
  const read = await Promise.all(files.map((file) => readFile(file, 'utf8')))
  const publicRoots =
    given === undefined ? [...getCACertificates('bundled'), ...getCACertificates('system')] : []
  const file = join(folder, 'trusted-roots.pem')
  const all = [root, ...read, ...publicRoots].map((text) => `${text.trim()}\n`)
  await writeFile(file, all.join(''), { mode: 0o600 })
  return file
}
