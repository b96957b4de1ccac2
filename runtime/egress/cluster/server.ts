import { AZURE_KEYS } from '../../../contracts/azure-identity-env.ts'
import {
  EGRESS_PROXY_ENV_PREFIX,
  EgressProxyEnv,
  UPSTREAM_PROXY_KEY,
} from '../../../contracts/egress-proxy-env.ts'
import { workloadIdentityOf } from '../../azure/workload-identity.ts'
import { messageOf } from '../../kit/errors.ts'
import { createLog } from '../../kit/log.ts'
import { parseEnv } from '../../kit/parse-env.ts'
import { present } from '../../kit/present.ts'
import type { ProxyIdentity } from '../credentials/proxy-identity.ts'
import { parseUpstreamProxy } from '../upstream-proxy.ts'
import { behind, createAzureIdentity } from './azure-identity.ts'
import { startReplica } from './replica.ts'
import type { ReplicaListen } from './replica-options.ts'
import { readerOfVault } from './user-vault.ts'

const EX_CONFIG = 78
/** Argument of the process that inserts credentials. */
const CREDENTIAL_ROLE = 'credentials'

function refuse(error: unknown): never {
  process.stderr.write(`${messageOf(error)}\n`)
  return process.exit(EX_CONFIG)
}

function readEnv(): EgressProxyEnv {
  try {
    return parseEnv(EgressProxyEnv, process.env, { prefix: EGRESS_PROXY_ENV_PREFIX, also: AZURE_KEYS })
  } catch (error) {
    return refuse(error)
  }
}

function listenFor(role: string | undefined): ReplicaListen {
  const { AGENTWEAVER_EGRESS_PORT: port, AGENTWEAVER_EGRESS_BROKER_SOCKET: brokerPath } = env
  if (role === undefined) return { port, brokerPath }
  if (role !== CREDENTIAL_ROLE)
    return refuse(new Error(`unknown argument ${role}: there is "${CREDENTIAL_ROLE}"`))
  if (brokerPath === undefined)
    return refuse(new Error(`AGENTWEAVER_EGRESS_BROKER_SOCKET is required with "${CREDENTIAL_ROLE}"`))
  return { socketPath: brokerPath, readSecret: vaultReader(env) }
}

/** Undefined without a vault. */
function vaultReader({ AGENTWEAVER_EGRESS_VAULT_URL: vaultUrl }: EgressProxyEnv) {
  const identity = workloadIdentityOf(env)
  return vaultUrl && identity ? readerOfVault({ vaultUrl, identity: behind(identity, proxy) }) : undefined
}

/** The process that all connections reach must have no identity. */
function identityFor(role: string | undefined): ProxyIdentity | undefined {
  const { AGENTWEAVER_EGRESS_FOUNDRY_URL: url } = env
  const identity = workloadIdentityOf(env)
  if (url === undefined || identity === undefined) return undefined
  if (role !== CREDENTIAL_ROLE)
    return refuse(new Error(`AGENTWEAVER_EGRESS_FOUNDRY_URL is only for "${CREDENTIAL_ROLE}"`))
  return createAzureIdentity({ identity, upstream: url, proxy, log })
}

const env = readEnv()
const upstream = env[UPSTREAM_PROXY_KEY]
const proxy = upstream === undefined ? undefined : parseUpstreamProxy(upstream)
const log = createLog({
  level: env.AGENTWEAVER_EGRESS_LOG_LEVEL,
  write: (line) => process.stderr.write(line),
})

async function main(): Promise<void> {
  const replica = await startReplica({
    url: env.AGENTWEAVER_EGRESS_CONTROL_URL,
    tokenFile: env.AGENTWEAVER_EGRESS_CONTROL_TOKEN_FILE,
    listen: listenFor(process.argv[2]),
    healthPort: env.AGENTWEAVER_EGRESS_HEALTH_PORT,
    ...present({ upstream: proxy, identity: identityFor(process.argv[2]) }),
    log,
  })
  log.info('listening', { port: replica.port })
  let isLeaving = false
  const leave = async (signal: string) => {
    if (isLeaving) return
    isLeaving = true
    log.info('leaving', { signal })
    await replica.drain()
    process.exit(0)
  }
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => void leave(signal))
}

main().catch((error: unknown) => {
  log.error('the egress proxy failed and exits', { error: messageOf(error) })
  process.exit(1)
})
