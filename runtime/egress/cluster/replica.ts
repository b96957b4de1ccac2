import { randomUUID } from 'node:crypto'
import { delay } from '../../kit/deadline.ts'
import type { Log } from '../../kit/log.ts'
import { EGRESS_LIMITS } from '../limits.ts'
import type { Resolve } from '../look-ups.ts'
import { EgressProxy } from '../proxy.ts'
import { type ControlPlace, followControlStream } from './control-stream.ts'
import { serveHealth } from './health-listener.ts'
import { Lease } from './lease.ts'
import { createProxyMetrics } from './metrics.ts'
import { ReportQueue } from './report-queue.ts'
import { TokenListener } from './token-listener.ts'
import { TokenVerifier } from './verify-token.ts'

export interface ReplicaOptions extends ControlPlace {
  /** 0 picks a free port. */
  readonly port: number
  readonly healthPort: number
  readonly log: Log
  readonly resolve?: Resolve
  readonly drain?: DrainTimes
}

export interface DrainTimes {
  /** New connections still come until every node knows that this replica is leaving. */
  readonly leadMs: number
  /** How long open connections may go on. */
  readonly openMs: number
}

const DRAIN: DrainTimes = { leadMs: 5_000, openMs: 25_000 }
const LAST_REPORTS_MS = 3_000
const LOOK_AGAIN_MS = 100

export interface Replica {
  readonly port: number
  readonly lease: Lease
  /** Accepts no more connections, waits for the open ones, and sends the last reports. */
  drain(): Promise<void>
}

/** Starts one replica of the egress proxy in a cluster. It opens nothing before its first message from the API. */
export async function startReplica(options: ReplicaOptions): Promise<Replica> {
  const { log, url, tokenFile, resolve, drain = DRAIN } = options
  const proxyId = randomUUID()
  const lease = new Lease({ onOver: () => void forget() })
  const verifier = new TokenVerifier()
  const proxy: EgressProxy = new EgressProxy({
    // Each replica limits the bytes of a run by itself, so it reports no usage.
    report: (report) => {
      if (report.type !== 'applied' && report.type !== 'usage' && report.type !== 'credential-wanted')
        queue.add(report)
    },
    closedBy: () => lease.refusal,
    ...(resolve && { resolve }),
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
    return proxy.apply({ revision: 0, generations: [] })
  }
  const listener = new TokenListener({
    proxy,
    verify: (token) => verifier.verify(token),
    closedBy: () => lease.refusal,
    limits: EGRESS_LIMITS,
    onRefused: metrics.onRefused,
    log,
  })
  let isLeaving = false
  const notReady = () => (isLeaving ? 'leaving' : lease.isHeld ? undefined : 'no lease')
  const health = await serveHealth({ port: options.healthPort, notReady, metrics: metrics.registry })
  const port = await listener.listen(options.port)
  const control = followControlStream({
    ...place,
    onReconnect: metrics.onReconnect,
    onMessage: async ({ keys }, state) => {
      verifier.use(keys)
      await proxy.apply(state)
      if (!lease.isHeld) log.info('got a lease', { sandboxes: state.generations.length })
      lease.renew()
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
