import { AZURE_KEYS } from '../../../contracts/azure-identity.ts'
import {
  EGRESS_PROXY_ENV_PREFIX,
  EgressProxyEnv,
  UPSTREAM_PROXY_KEY,
} from '../../../contracts/egress-proxy-env.ts'
import { messageOf } from '../../kit/errors.ts'
import { createLog } from '../../kit/log.ts'
import { parseEnv } from '../../kit/parse-env.ts'
import { present } from '../../kit/present.ts'
import { parseUpstreamProxy } from '../upstream-proxy.ts'
import { type ReplicaListen, startReplica } from './replica.ts'
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
    // A shell may have the variables of Azure for another purpose, so they are read only with a vault.
    const also = process.env['AGENTWEAVER_EGRESS_VAULT_URL'] === undefined ? [] : AZURE_KEYS
    return parseEnv(EgressProxyEnv, process.env, { prefix: EGRESS_PROXY_ENV_PREFIX, also })
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
function vaultReader({
  AGENTWEAVER_EGRESS_VAULT_URL: vaultUrl,
  AZURE_AUTHORITY_HOST: authority,
  AZURE_CLIENT_ID: clientId,
  AZURE_FEDERATED_TOKEN_FILE: tokenFile,
  AZURE_TENANT_ID: tenantId,
  [UPSTREAM_PROXY_KEY]: upstreamUrl,
}: EgressProxyEnv) {
  if (!vaultUrl || !authority || !clientId || !tokenFile || !tenantId) return undefined
  const through = upstreamUrl === undefined ? undefined : parseUpstreamProxy(upstreamUrl)
  const proxy = through && { host: `http://${through.host}`, port: through.port }
  const identity = { authority: new URL(authority).origin, clientId, tokenFile, tenantId }
  return readerOfVault({ vaultUrl, identity: { ...identity, ...present({ proxy }) } })
}

const env = readEnv()
const upstream = env[UPSTREAM_PROXY_KEY]
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
    ...(upstream !== undefined && { upstream: parseUpstreamProxy(upstream) }),
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
