import { EGRESS_PROXY_ENV_PREFIX, EgressProxyEnv } from '../../../contracts/egress-proxy-env.ts'
import { messageOf } from '../../kit/errors.ts'
import { createLog } from '../../kit/log.ts'
import { parseEnv } from '../../kit/parse-env.ts'
import { startReplica } from './replica.ts'

const EX_CONFIG = 78

function readEnv(): EgressProxyEnv {
  try {
    return parseEnv(EgressProxyEnv, process.env, { prefix: EGRESS_PROXY_ENV_PREFIX })
  } catch (error) {
    process.stderr.write(`${messageOf(error)}\n`)
    return process.exit(EX_CONFIG)
  }
}

const env = readEnv()
const log = createLog({
  level: env.AGENTWEAVER_EGRESS_LOG_LEVEL,
  write: (line) => process.stderr.write(line),
})

async function main(): Promise<void> {
  const replica = await startReplica({
    url: env.AGENTWEAVER_EGRESS_CONTROL_URL,
    tokenFile: env.AGENTWEAVER_EGRESS_CONTROL_TOKEN_FILE,
    port: env.AGENTWEAVER_EGRESS_PORT,
    healthPort: env.AGENTWEAVER_EGRESS_HEALTH_PORT,
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
