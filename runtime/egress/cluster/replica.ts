import { randomUUID } from 'node:crypto'
import { EgressRunReport } from '../../../contracts/egress.ts'
import type { ShareRequest } from '../../../contracts/egress-budgets.ts'
import { delay } from '../../kit/deadline.ts'
import { present } from '../../kit/present.ts'
import { CredentialValues } from '../credentials/values.ts'
import { EGRESS_LIMITS } from '../limits.ts'
import { EgressProxy } from '../proxy.ts'
import type { ControlPlace } from './control-request.ts'
import { followControlStream } from './control-stream.ts'
import type { CredentialChecks } from './credential-checks.ts'
import { fetchCredential } from './fetch-credential.ts'
import { serveHealth } from './health-listener.ts'
import { Lease } from './lease.ts'
import { createProxyMetrics } from './metrics.ts'
import type { DrainTimes, ReplicaOptions } from './replica-options.ts'
import { ReportQueue } from './report-queue.ts'
import { reserve, takeShare } from './reserve.ts'
import { NOWHERE, ServedState } from './served-state.ts'
import { TokenListener } from './token-listener.ts'
import { TokenVerifier } from './verify-token.ts'

const DRAIN: DrainTimes = { leadMs: 5_000, openMs: 25_000 }
const LAST_REPORTS_MS = 3_000
const LOOK_AGAIN_MS = 100

export interface Replica {
  /** 0 for the process that inserts credentials. */
  readonly port: number
  readonly lease: Lease
  /** Accepts no more connections, waits for the open ones, and sends the last reports. */
  drain(): Promise<void>
}

/** Starts one replica of the egress proxy in a cluster. It opens nothing before its first message from the API. */
export async function startReplica(options: ReplicaOptions): Promise<Replica> {
  const { log, url, tokenFile, listen, resolve, upstream, roots, limits, drain = DRAIN } = options
  const proxyId = randomUUID()
  const lease = new Lease({ onOver: () => void forget() })
  const verifier = new TokenVerifier()
  const served = new ServedState(options, (state) => proxy.apply(state))
  const proxy: EgressProxy = new EgressProxy({
    // Each replica limits the bytes of a run by itself, so it reports no usage.
    report: (report) => {
      const run = EgressRunReport.safeParse(report)
      if (run.success) queue.add(run.data)
    },
    reserve: (request) => reserve({ url, tokenFile }, request),
    ...partsOf(options, served.checks),
    closedBy: () => lease.refusal,
    ...present({ resolve, upstream, roots, limits }),
  })
  const metrics = createProxyMetrics({
    connections: () => proxy.count,
    sandboxes: () => proxy.sandboxes,
    leaseSeconds: () => lease.leftMs / 1000,
    waitingReports: () => queue.length,
  })
  const place = { url, tokenFile, proxy: proxyId, log }
  const queue = new ReportQueue({ ...place, onDropped: metrics.onDropped })
  /** Without a lease for so long, this replica may have missed that a run ended. */
  const forget = () => {
    log.error('the lease is over, and all connections are closed')
    return served.use(NOWHERE)
  }
  const listener = new TokenListener({
    proxy,
    verify: (token) => verifier.verify(token),
    closedBy: () => lease.refusal,
    limits: limits ?? EGRESS_LIMITS,
    isBehindProxy: 'socketPath' in listen,
    onRefused: metrics.onRefused,
    log,
  })
  let isLeaving = false
  const notReady = () => (isLeaving ? 'leaving' : lease.isHeld ? undefined : 'no lease')
  const health = await serveHealth({ port: options.healthPort, notReady, metrics: metrics.registry })
  const port = await ('port' in listen
    ? listener.listen(listen.port)
    : listener.listenAt(listen.socketPath).then(() => 0))
  const control = followControlStream({
    ...{ ...place, silenceMs: options.silenceMs },
    onReconnect: metrics.onReconnect,
    onMessage: async ({ keys, checks = [] }, state) => {
      verifier.use(keys)
      await served.use(state)
      if (!lease.isHeld) log.info('got a lease', { sandboxes: state.generations.length })
      lease.renew()
      served.checks?.take(checks)
    },
  })
  return {
    port,
    lease,
    async drain() {
      isLeaving = true
      await delay(drain.leadMs)
      listener.close()
      const giveUpAt = performance.now() + drain.openMs
      while (proxy.count > 0 && performance.now() < giveUpAt) await delay(LOOK_AGAIN_MS)
      await control.close()
      lease.end()
      proxy.close()
      await queue.close(LAST_REPORTS_MS)
      health.close()
    },
  }
}

/** Values are read with the token of this process, which the other one does not have. */
const partsOf = (
  { listen, identity, url, tokenFile }: Pick<ReplicaOptions, 'listen' | 'identity' | keyof ControlPlace>,
  checks: CredentialChecks | undefined,
) =>
  'socketPath' in listen
    ? {
        credentials: new CredentialValues({
          fetch: async (wanted) =>
            checks?.valueOf(wanted.runId) ??
            fetchCredential({ url, tokenFile, readSecret: listen.readSecret }, wanted),
        }),
        ...present({ identity }),
      }
    : {
        // All connections come through this process, so it counts the bytes.
        takeShare: (request: ShareRequest) => takeShare({ url, tokenFile }, request),
        ...(listen.brokerPath === undefined ? {} : { brokerPath: listen.brokerPath }),
      }
