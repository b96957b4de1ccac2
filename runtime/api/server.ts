import { homedir } from 'node:os'
import { deadline } from '../kit/deadline.ts'
import { messageOf, SandboxError } from '../kit/errors.ts'
import { createLog } from '../kit/log.ts'
import { createRedactor } from '../redaction/redactor.ts'
import { openStore } from '../store/open-store.ts'
import { buildApp } from './app.ts'
import { composeKeys, composeRunService } from './compose.ts'
import { type ApiConfig, readConfig } from './config.ts'
import { serveMetrics } from './http/metrics-listener.ts'
import { followKeys } from './keys/follow-keys.ts'
import { announcement } from './start/announce.ts'
import { ensureFirstApiKey, ensureGivenApiKey } from './start/first-api-key.ts'
import { listen } from './start/listen.ts'
import { removeServiceFile, writeServiceFile } from './start/service-file.ts'
import { prepareStateFolder } from './start/state-folder.ts'
import { lockStateFolder } from './start/state-lock.ts'
import { stopRequest } from './start/stop-request.ts'
import { storeLocation } from './start/store-location.ts'

/** EX_CONFIG of sysexits(3), so that a supervisor can tell a mistake of ours from one of the configuration. */
const EXIT_CONFIG = 78
const EXIT_FAILURE = 1
/** Kubernetes gives a pod two minutes to stop; the rest is for the process to end. */
const STOP_TIMEOUT_MS = 110_000

const now = () => new Date()
const writeLog = (line: string) => void process.stderr.write(`${line}\n`)

async function serve(config: ApiConfig): Promise<void> {
  const secrets = [config.models.openaiApiKey, config.models.copilotToken].filter((key) => key !== undefined)
  const { text: redact } = createRedactor({ secrets, pii: false })
  const log = createLog({ level: config.logLevel, write: writeLog, redact })
  const stop = stopRequest({
    signals: process,
    lifeline: config.hasLifeline ? process.stdin : undefined,
    onImpatience: () => process.exit(EXIT_FAILURE),
  })
  await prepareStateFolder(config.stateDir, homedir())
  const unlock = lockStateFolder(config.stateDir)
  const { keys, apiKey, reread } = await composeKeys(config)
  const rotation = followKeys(reread, log)
  const store = await openStore(storeLocation(config, log), { log })
  const service = await composeRunService(config, { store, log }, keys)
  const { promise: started, resolve: markStarted } = Promise.withResolvers<void>()
  const app = buildApp({
    service,
    store,
    log,
    now,
    started,
    rateLimitPerMinute: config.rateLimitPerMinute,
    allowedHosts: config.allowedHosts,
    hasOwnMetricsPort: config.metricsPort !== undefined,
  })
  let metrics: Awaited<ReturnType<typeof serveMetrics>> | undefined
  const close = async () => {
    markStarted()
    // Nobody new is sent here; the file goes while the folder is still held, so it is never a successor's.
    await removeServiceFile(config.stateDir)
    await app.close()
    await rotation.stop()
    await metrics?.close()
    await store.close()
    unlock()
  }
  try {
    // The port comes first: a service that cannot be reached must not take up any run.
    const url = await listen(app, config)
    if (apiKey !== undefined) await ensureGivenApiKey(store, { apiKey, now })
    // Of several processes with one store none makes a key that the others do not know of.
    const isOwn = config.keys.kind === 'own'
    const apiKeyFile = isOwn ? await ensureFirstApiKey(store, { stateDir: config.stateDir, now }) : undefined
    metrics = await serveMetrics(service, config)
    await service.start()
    markStarted()
    await writeServiceFile(config.stateDir, { url, pid: process.pid })
    process.stdout.write(announcement(config.readyFormat, { url, apiKeyFile, pid: process.pid }))
    log.info('stopping', { reason: await stop })
  } finally {
    await deadline('stopping', STOP_TIMEOUT_MS, close())
  }
}

try {
  await serve(readConfig(process.env, { home: homedir(), cwd: process.cwd() }))
  process.exit(0)
} catch (error) {
  process.stderr.write(`${messageOf(error)}\n`)
  const isConfig = error instanceof SandboxError && error.code === 'invalid_config'
  process.exit(isConfig ? EXIT_CONFIG : EXIT_FAILURE)
}
