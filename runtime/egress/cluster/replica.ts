import { randomUUID } from 'node:crypto'
import { EgressRunReport } from '../../../contracts/egress.ts'
import type { ShareRequest } from '../../../contracts/egress-budgets.ts'
import { delay } from '../../kit/deadline.ts'
import type { Log } from '../../kit/log.ts'
import { present } from '../../kit/present.ts'
import type { ProxyIdentity } from '../credentials/proxy-identity.ts'
import { CredentialValues } from '../credentials/values.ts'
import { EGRESS_LIMITS, type EgressLimits } from '../limits.ts'
import type { Resolve } from '../look-ups.ts'
import { EgressProxy } from '../proxy.ts'
import type { UpstreamProxy } from '../upstream-proxy.ts'
import { type ControlPlace, followControlStream } from './control-stream.ts'
import { fetchCredential } from './fetch-credential.ts'
import { serveHealth } from './health-listener.ts'
import { Lease } from './lease.ts'
import { createProxyMetrics } from './metrics.ts'
import { ReportQueue } from './report-queue.ts'
import { reserve, takeShare } from './reserve.ts'
import { TokenListener } from './token-listener.ts'
import type { ReadUserSecret } from './user-vault.ts'
import { TokenVerifier } from './verify-token.ts'

export interface ReplicaOptions extends ControlPlace {
  /** Where clients connect. */
  readonly listen: ReplicaListen
  readonly healthPort: number
  readonly log: Log
  readonly resolve?: Resolve
  /** The company's proxy. */
  readonly upstream?: UpstreamProxy
  /** Roots that a destination's certificate may have. @default the roots of Node */
  readonly roots?: readonly string[]
  readonly drain?: DrainTimes
  readonly limits?: EgressLimits
  /** The Azure identity of the process that inserts credentials. */
  readonly identity?: ProxyIdentity
}

export type ReplicaListen =
  /** For sandboxes. Connections that need a credential are passed on to `brokerPath`. A port of 0 picks a free one. */
  | { readonly port: number; readonly brokerPath?: string | undefined }
  /** As the process that inserts credentials: for the other process of this replica. */
  | { readonly socketPath: string; readonly readSecret?: ReadUserSecret | undefined }

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
  const proxy: EgressProxy = new EgressProxy({
    // Each replica limits the bytes of a run by itself, so it reports no usage.
    report: (report) => {
      const run = EgressRunReport.safeParse(report)
      if (run.success) queue.add(run.data)
    },
    reserve: (request) => reserve({ url, tokenFile }, request),
    ...partsOf(options, { url, tokenFile }),
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
    return proxy.apply({ revision: 0, generations: [] })
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

/** Values are read with the token of this process, which the other one does not have. */
const partsOf = ({ listen, identity }: Pick<ReplicaOptions, 'listen' | 'identity'>, place: ControlPlace) =>
  'socketPath' in listen
    ? {
        credentials: new CredentialValues({
          fetch: (wanted) => fetchCredential({ ...place, readSecret: listen.readSecret }, wanted),
        }),
        ...present({ identity }),
      }
    : {
        // All connections come through this process, so it counts the bytes.
        takeShare: (request: ShareRequest) => takeShare(place, request),
        ...(listen.brokerPath === undefined ? {} : { brokerPath: listen.brokerPath }),
      }
