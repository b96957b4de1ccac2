import { RunState } from '../../../contracts/api.ts'
import type { Store } from '../../store/store.ts'
import type { ActiveRuns } from './active-runs.ts'

/** Prometheus text: runs by state as the store has them, and what this process holds. */
export async function renderMetrics(store: Store, active: ActiveRuns): Promise<string> {
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
    '# HELP process_resident_memory_bytes Resident memory of this process.',
    '# TYPE process_resident_memory_bytes gauge',
    `process_resident_memory_bytes ${rss}`,
    '',
  ].join('\n')
}
