import { Counter, Gauge, Registry } from 'prom-client'
import { RunState } from '../../../../contracts/api.ts'
import { SandboxKind } from '../../../../contracts/names.ts'
import { ApprovalKinds } from '../../../store/columns.ts'
import type { EventLoopMonitor } from '../../metrics/event-loop-lag.ts'
import type { ProcessMetrics } from '../../metrics/process-metrics.ts'
import type { ActiveRuns } from '../drive/active-runs.ts'
import type { ReaperFigures } from '../replicas/reaper.ts'
import { type Operations, queueOf } from './operations.ts'

type Parts = {
  /** Undefined while the store cannot be used. */
  readonly operations: Operations | undefined
  readonly active: Pick<ActiveRuns, 'taken'>
  readonly reaper: Readonly<ReaperFigures>
  readonly metrics?: ProcessMetrics | undefined
  readonly eventLoop: EventLoopMonitor
}

/**
 * Returns the metrics as Prometheus text. Values that are kept elsewhere fill a new registry in each scrape. Without the store,
 * its values are absent and all others are served, so that an alert can tell a broken store from a broken process.
 */
export async function renderMetrics(parts: Parts): Promise<string> {
  const registry = new Registry()
  gaugesOfStore(registry, parts.operations)
  gaugesOfProcess(registry, parts)
  const texts = [registry.metrics(), parts.metrics?.registry.metrics()]
  return (await Promise.all(texts)).filter((text) => text !== undefined).join('\n')
}

const gaugeIn =
  (registry: Registry) =>
  <T extends string>(name: string, help: string, ...labelNames: T[]) =>
    new Gauge({ name, help, labelNames, registers: [registry] })

function gaugesOfStore(registry: Registry, operations: Operations | undefined): void {
  const gauge = gaugeIn(registry)
  gauge('agentweaver_store_usable', '1 if the store can be written and read, otherwise 0.').set(
    operations ? 1 : 0,
  )
  if (!operations) return
  const { figures, overdue } = operations
  const runs = gauge('agentweaver_runs', 'Runs in the store by state.', 'state')
  for (const state of RunState.options) runs.set({ state }, figures.runs.get(state) ?? 0)
  const queued = gauge(
    'agentweaver_queued_runs',
    'Runs that wait in the queue for a sandbox, by kind.',
    'kind',
  )
  const age = gauge(
    'agentweaver_queue_oldest_age_seconds',
    'The longest wait of a run in the queue; 0 without a waiting run.',
    'kind',
  )
  for (const kind of SandboxKind.options) {
    const { waiting, oldestMs } = queueOf(figures, kind)
    queued.set({ kind }, waiting)
    age.set({ kind }, oldestMs / 1_000)
  }
  const gates = gauge('agentweaver_open_gates', 'Requests that wait for a person, by kind.', 'kind')
  for (const kind of ApprovalKinds.options)
    gates.set({ kind }, figures.gates.find((gate) => gate.kind === kind)?.count ?? 0)
  const late = gauge(
    'agentweaver_overdue_effects',
    'Work that a replica should have done, by kind: run_takeover at once, the other kinds after a minute.',
    'kind',
  )
  for (const [kind, count] of Object.entries(overdue)) late.set({ kind }, count)
}

function gaugesOfProcess(registry: Registry, { active, reaper, eventLoop }: Parts): void {
  const gauge = gaugeIn(registry)
  const counter = (name: string, help: string, value: number) =>
    new Counter({ name, help, registers: [registry] }).inc(value)
  gauge('agentweaver_places_taken', 'Run slots of this process that are in use.').set(active.taken)
  counter(
    'agentweaver_reaped_claims_total',
    'Claims that this process deleted because they belong to no run.',
    reaper.reaped,
  )
  counter(
    'agentweaver_reap_failures_total',
    'Claim deletions that failed or timed out. Each is retried in the next round.',
    reaper.failed,
  )
  if (reaper.lookedAt)
    gauge(
      'agentweaver_reaper_last_round_timestamp_seconds',
      'When this process last looked for claims without a run, or began to wait for its turn.',
    ).set(reaper.lookedAt.getTime() / 1000)
  gauge('process_resident_memory_bytes', 'Resident memory of this process in bytes.').set(
    process.memoryUsage.rss(),
  )
  const lag = eventLoop.read()
  if (!lag) return
  gauge('nodejs_eventloop_lag_max_seconds', 'Longest delay of the event loop since the last scrape.').set(
    lag.max,
  )
  gauge(
    'nodejs_eventloop_lag_p99_seconds',
    'Delay of the event loop since the last scrape, 99th percentile.',
  ).set(lag.p99)
}
