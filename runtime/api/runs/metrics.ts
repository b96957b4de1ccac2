import { RunState } from '../../../contracts/api.ts'
import type { Store } from '../../store/store.ts'
import type { ActiveRuns } from './active-runs.ts'
import type { ReaperFigures } from './reaper.ts'

type Parts = {
  readonly store: Store
  readonly active: Pick<ActiveRuns, 'taken'>
  readonly reaper: Readonly<ReaperFigures>
}

/** Prometheus text: runs by state as the store has them, and what this process holds and has reaped. */
export async function renderMetrics({ store, active, reaper }: Parts): Promise<string> {
  const counts = await Promise.all(
    RunState.options.map(async (state) => [state, await store.countRuns({ states: [state] })] as const),
  )
  const { rss } = process.memoryUsage()
  return [
    '# HELP agentweaver_runs Runs in the store by state.',
    '# TYPE agentweaver_runs gauge',
    ...counts.map(([state, count]) => `agentweaver_runs{state="${state}"} ${count}`),
    '# HELP agentweaver_places_taken Places of this process that runs hold.',
    '# TYPE agentweaver_places_taken gauge',
    `agentweaver_places_taken ${active.taken}`,
    '# HELP agentweaver_reaped_claims_total Claims that this process deleted because no run had them.',
    '# TYPE agentweaver_reaped_claims_total counter',
    `agentweaver_reaped_claims_total ${reaper.reaped}`,
    '# HELP agentweaver_reap_failures_total Such deletions that were not seen through; each is tried again.',
    '# TYPE agentweaver_reap_failures_total counter',
    `agentweaver_reap_failures_total ${reaper.failed}`,
    ...lastRound(reaper),
    '# HELP process_resident_memory_bytes Resident memory of this process.',
    '# TYPE process_resident_memory_bytes gauge',
    `process_resident_memory_bytes ${rss}`,
    '',
  ].join('\n')
}

function lastRound({ lookedAt }: Readonly<ReaperFigures>): string[] {
  if (!lookedAt) return []
  const name = 'agentweaver_reaper_last_round_timestamp_seconds'
  return [
    `# HELP ${name} When this process last looked for claims that no run has, or began to wait for its turn.`,
    `# TYPE ${name} gauge`,
    `${name} ${lookedAt.getTime() / 1000}`,
  ]
}
