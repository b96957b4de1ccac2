import { Counter, Gauge, Registry } from 'prom-client'
import { RunState } from '../../../../contracts/api.ts'
import type { Store } from '../../../store/store.ts'
import type { ActiveRuns } from '../drive/active-runs.ts'
import type { ReaperFigures } from '../replicas/reaper.ts'

type Parts = {
  readonly store: Store
  readonly active: Pick<ActiveRuns, 'taken'>
  readonly reaper: Readonly<ReaperFigures>
}

/** Returns the metrics as Prometheus text. The values are kept elsewhere, so each scrape fills a new registry. */
export async function renderMetrics({ store, active, reaper }: Parts): Promise<string> {
  const registry = new Registry()
  const registers = [registry]
  const gauge = (name: string, help: string, value: number) => new Gauge({ name, help, registers }).set(value)
  const counter = (name: string, help: string, value: number) =>
    new Counter({ name, help, registers }).inc(value)

  const runs = new Gauge({
    name: 'agentweaver_runs',
    help: 'Runs in the store by state.',
    labelNames: ['state'],
    registers,
  })
  await Promise.all(
    RunState.options.map(async (state) => runs.set({ state }, await store.countRuns({ states: [state] }))),
  )
  gauge('agentweaver_places_taken', 'Run slots of this process that are in use.', active.taken)
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
      reaper.lookedAt.getTime() / 1000,
    )
  gauge(
    'process_resident_memory_bytes',
    'Resident memory of this process in bytes.',
    process.memoryUsage.rss(),
  )
  return registry.metrics()
}
