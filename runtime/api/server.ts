import { homedir } from 'node:os'
import * as z from 'zod'
import { deadline } from '../kit/deadline.ts'
import { messageOf, SandboxError } from '../kit/errors.ts'
import { issueMessage } from '../kit/issue-message.ts'
import { createLog, type Log } from '../kit/log.ts'
import { OwnerRedactors } from '../redaction/owner-redactors.ts'
import { finishMove } from '../state-folder/move-state.ts'
import { preparePrivateFolder } from '../state-folder/prepare-folder.ts'
import { removeServiceFile, writeServiceFile } from '../state-folder/service-file.ts'
import { lockStateFolderWhenFree } from '../state-folder/state-lock.ts'
import { openStore } from '../store/open-store.ts'
import type { Store } from '../store/store.ts'
import { buildApp } from './app.ts'
import { composeKeys, composeRunService } from './compose.ts'
import { deploymentSecrets } from './compose-user-credentials.ts'
import { type ApiConfig, readConfig } from './config.ts'
import { serveMetrics } from './http/metrics-listener.ts'
import { followKeys } from './keys/follow-keys.ts'
import { measuredStore } from './metrics/measured-store.ts'
import { createProcessMetrics } from './metrics/process-metrics.ts'
import { createKeyService } from './people/api-keys.ts'
import { createSignIn } from './people/sign-in.ts'
import { type AuditTrail, createAuditTrail } from './runs/audit-trail.ts'
import { announcement } from './start/announce.ts'
import { settleEarlierState } from './start/earlier-state.ts'
import { ensureFirstApiKey, ensureGivenApiKey } from './start/first-api-key.ts'
import { listen } from './start/listen.ts'
import { listenOnSocket } from './start/listen-on-socket.ts'
import { recordedKeys } from './start/recorded-keys.ts'
import { stopRequest } from './start/stop-request.ts'
import { storeLocation } from './start/store-location.ts'
import { isTracingOn, type Tracing } from './tracing/tracing.ts'

/** EX_CONFIG of sysexits(3), so that a supervisor can tell a wrong configuration from other failures. */
const EXIT_CONFIG = 78
const EXIT_FAILURE = 1
/** Kubernetes gives the pod two minutes to stop. The rest is for the process to exit. */
const STOP_TIMEOUT_MS = 110_000
/** A command kills its service if that does not stop within 15 seconds. */
const FOLDER_WAIT_MS = 20_000

z.config({ customError: issueMessage })

const now = () => new Date()
const writeLog = (line: string) => void process.stderr.write(line)

/** Locks the state folder for this process and completes an interrupted move. */
async function takeStateFolder(config: ApiConfig): Promise<() => void> {
  await settleEarlierState(config, { cwd: process.cwd(), input: process.stdin, output: process.stdout })
  await preparePrivateFolder(config.stateDir)
  const unlock = await lockStateFolderWhenFree(config.stateDir, {
    withinMs: FOLDER_WAIT_MS,
    onWait: () => process.stderr.write(`Waiting for the service that is stopping in ${config.stateDir}.\n`),
  })
  await removeServiceFile(config.stateDir)
  await finishMove(config.stateDir)
  return unlock
}

const credentialParts = ({ signIn, signInMethods }: ApiConfig, store: Store, audit: AuditTrail) => ({
  keys: createKeyService({ store, audit, now }),
  signInMethods,
  signIn: signIn && createSignIn(signIn, { now }),
})

const stopRequestOf = ({ hasLifeline, parentPid }: ApiConfig) =>
  stopRequest({
    signals: process,
    lifeline: hasLifeline ? process.stdin : undefined,
    hasLostParent: () => parentPid !== undefined && process.ppid !== parentPid,
    onImpatience: () => process.exit(EXIT_FAILURE),
  })

async function openMeasuredStore(config: ApiConfig, log: Log) {
  const metrics = createProcessMetrics()
  const tracing = isTracingOn(process.env) ? await loadTracing(log) : undefined
  const store = await openStore(storeLocation(config, log), { log })
  return { metrics, tracing, store: measuredStore(store, metrics, tracing) }
}

/** Loads the libraries only if traces are on. */
async function loadTracing(log: Log): Promise<Tracing> {
  const { openTracing } = await import('./tracing/open-tracing.ts')
  return openTracing(log)
}

async function serve(config: ApiConfig): Promise<void> {
  const redactors = new OwnerRedactors(deploymentSecrets(config))
  const log = createLog({ level: config.logLevel, write: writeLog, redact: redactors.text })
  const unlock = await takeStateFolder(config)
  const stop = stopRequestOf(config)
  const { keys, apiKey, reread } = await composeKeys(config)
  const rotation = followKeys(reread, log)
  const { store, metrics, tracing } = await openMeasuredStore(config, log)
  const { service, serveEgressControl, ...parts } = await composeRunService(
    config,
    { store, redactors, log, metrics },
    keys,
  )
  const audit = createAuditTrail(keys)
  const { promise: started, resolve: markStarted } = Promise.withResolvers<void>()
  const app = buildApp({
    service,
    store,
    ...parts,
    ...credentialParts(config, store, audit),
    log,
    now,
    started,
    rateLimitPerMinute: config.rateLimitPerMinute,
    allowedHosts: config.allowedHosts,
    streams: config.streams,
    hasOwnMetricsPort: config.metricsPort !== undefined,
    ...{ metrics, tracing },
  })
  let metricsListener: Awaited<ReturnType<typeof serveMetrics>> | undefined
  let control: Awaited<ReturnType<NonNullable<typeof serveEgressControl>>> | undefined
  let socket: Awaited<ReturnType<typeof listenOnSocket>> | undefined
  const close = async () => {
    markStarted()
    // Removed while the folder is still locked, so that they cannot belong to the next service.
    socket?.close()
    await removeServiceFile(config.stateDir)
    await app.close()
    await rotation.stop()
    // After the runs, whose networks close on this way.
    await control?.close()
    await metricsListener?.close()
    await Promise.all([store.close(), tracing?.close()])
    unlock()
  }
  try {
    // The proxies need it for the runs of other processes too, so it does not wait for this one to be ready.
    control = await serveEgressControl?.()
    await service.hold()
    // Listens before it takes over runs, because a service that cannot be reached must not own any.
    const url = await listen(app, config)
    socket = await listenOnSocket(app, config.socket)
    const apiKeys = recordedKeys(store, audit)
    if (apiKey !== undefined) await ensureGivenApiKey(apiKeys, { apiKey, now })
    // Processes that share a store must not create a key that the others do not know.
    const isOwn = config.keys.kind === 'own'
    const apiKeyFile = isOwn
      ? await ensureFirstApiKey(apiKeys, { stateDir: config.stateDir, now })
      : undefined
    metricsListener = await serveMetrics(service, config)
    await service.start()
    markStarted()
    const running = { url, socket: config.socket.path, pid: process.pid }
    await writeServiceFile(config.stateDir, { ...running, startedIn: process.cwd() })
    process.stdout.write(
      announcement(config.readyFormat, { ...running, stateDir: config.stateDir, apiKeyFile }),
    )
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
