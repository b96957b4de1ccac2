import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import type { RefusedCaller } from './token-listener.ts'

interface Watched {
  readonly connections: () => number
  readonly sandboxes: () => number
  readonly leaseSeconds: () => number
  readonly waitingReports: () => number
}

/** The metrics of one replica. */
export function createProxyMetrics(watched: Watched) {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name: `agentweaver_egress_${name}`,
      help,
      registers: [registry],
      collect() {
        this.set(read())
      },
    })
  gauge('connections', 'Open connections of sandboxes.', watched.connections)
  gauge('sandboxes', 'Sandboxes with network access in the newest state.', watched.sandboxes)
  gauge('lease_seconds', 'Time until this replica opens no more connections.', watched.leaseSeconds)
  gauge('waiting_reports', 'Reports that the API has not accepted yet.', watched.waitingReports)
  const counter = <T extends string>(name: string, help: string, ...labelNames: T[]) =>
    new Counter({ name: `agentweaver_egress_${name}`, help, labelNames, registers: [registry] })
  const refused = counter('refused_callers_total', 'Connections without a valid caller, by reason.', 'reason')
  const dropped = counter('dropped_reports_total', 'Reports that were dropped because too many waited.')
  const reconnects = counter('control_reconnects_total', 'Control streams that ended.')
  return {
    registry,
    onRefused: (reason: RefusedCaller) => refused.inc({ reason }),
    onDropped: () => dropped.inc(),
    onReconnect: () => reconnects.inc(),
  }
}
