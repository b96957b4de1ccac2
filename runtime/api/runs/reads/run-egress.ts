import type { EgressDenied, EgressSummary } from '../../../../contracts/egress.ts'
import type { DeniedEgress, RunEgress } from '../../../../contracts/run-egress.ts'
import type { RunRow, Store } from '../../../store/store.ts'

/** Reports that are read of one run. Repeats are counted by the proxy, so an honest run has far fewer. */
const MAX_REPORTS = 5_000

type Host = EgressSummary['hosts'][number]

/** Groups the reports of the egress proxy about a run. */
export async function readRunEgress(
  store: Pick<Store, 'readEventsOf'>,
  { id, kind, allowedHosts }: RunRow,
): Promise<RunEgress> {
  const denied = await store.readEventsOf(id, 'egress.denied', MAX_REPORTS)
  const summaries = await store.readEventsOf(id, 'egress.summary', MAX_REPORTS)
  const anomalies = await store.readEventsOf(id, 'egress.anomaly', MAX_REPORTS)
  const groups = new Map<string, DeniedEgress>()
  for (const { at, event } of denied) addRefusal(groups, event.data, at)
  const hosts = new Map<string, Host>()
  for (const { event } of summaries) for (const host of event.data.hosts) addHost(hosts, host)
  return {
    runId: id,
    kind,
    denied: [...groups.values()].sort((a, b) => b.count - a.count || (a.host < b.host ? -1 : 1)),
    allowed: allowedHosts,
    anomalies: anomalies.map(({ at, event }) => ({ ...event.data, at })),
    hosts: [...hosts.values()].sort((a, b) => (a.host < b.host ? -1 : 1)),
    isComplete: denied.length < MAX_REPORTS && summaries.length < MAX_REPORTS,
  }
}

function addRefusal(groups: Map<string, DeniedEgress>, refused: EgressDenied, at: string): void {
  const { host, port, method, rule } = refused
  const key = JSON.stringify([host, port, method, rule])
  const known = groups.get(key)
  const count = refused.count + (known?.count ?? 0)
  // The newest reason counts: the list may have changed since.
  groups.set(key, { ...refused, count, firstAt: known?.firstAt ?? at, lastAt: at })
}

function addHost(hosts: Map<string, Host>, host: Host): void {
  const key = JSON.stringify([host.host, host.port, host.phase])
  const known = hosts.get(key)
  hosts.set(key, {
    ...host,
    connections: host.connections + (known?.connections ?? 0),
    sentBytes: host.sentBytes + (known?.sentBytes ?? 0),
    receivedBytes: host.receivedBytes + (known?.receivedBytes ?? 0),
    denied: host.denied + (known?.denied ?? 0),
  })
}
