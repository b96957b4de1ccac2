import { expect, it } from 'vitest'
import { RunState } from '../../contracts/api.ts'
import { ErrorCode } from '../../contracts/errors.ts'
import type { EventLoopMonitor } from '../../runtime/api/metrics/event-loop-lag.ts'
import { createProcessMetrics } from '../../runtime/api/metrics/process-metrics.ts'
import { renderMetrics } from '../../runtime/api/runs/reads/metrics.ts'
import type { Operations } from '../../runtime/api/runs/reads/operations.ts'
import { ReaperFigures } from '../../runtime/api/runs/replicas/reaper.ts'

const operations: Operations = {
  figures: {
    runs: new Map([['running', 3]]),
    queue: [
      { lane: 'agent', count: 2, oldestMs: 1_500 },
      { lane: 'agent/temporary', count: 1, oldestMs: 4_500 },
    ],
    gates: [{ kind: 'shell', count: 4, oldestAt: '2026-01-01T00:00:00.000Z', overdue: 1 }],
    unreleased: 2,
  },
  overdue: { approval_expiry: 1, sandbox_release: 2, queue_deadline: 3, run_takeover: 4 },
}
const eventLoop = { read: () => ({ max: 0.5, p99: 0.25 }) } as EventLoopMonitor

/** The samples and types of a page, without the HELP texts and the size of this process. */
const essence = (text: string) =>
  text
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('# HELP'))
    .map((line) => line.replace(/^(process_resident_memory_bytes) \d+$/, '$1 SIZE'))

const OF_STORE = [
  '# TYPE agentweaver_store_usable gauge',
  'agentweaver_store_usable 1',
  '# TYPE agentweaver_runs gauge',
  ...RunState.options.map((state) => `agentweaver_runs{state="${state}"} ${state === 'running' ? 3 : 0}`),
  '# TYPE agentweaver_queued_runs gauge',
  'agentweaver_queued_runs{kind="agent"} 3',
  'agentweaver_queued_runs{kind="command"} 0',
  '# TYPE agentweaver_queue_oldest_age_seconds gauge',
  'agentweaver_queue_oldest_age_seconds{kind="agent"} 4.5',
  'agentweaver_queue_oldest_age_seconds{kind="command"} 0',
  '# TYPE agentweaver_open_gates gauge',
  'agentweaver_open_gates{kind="shell"} 4',
  'agentweaver_open_gates{kind="tool"} 0',
  'agentweaver_open_gates{kind="question"} 0',
  '# TYPE agentweaver_overdue_effects gauge',
  'agentweaver_overdue_effects{kind="approval_expiry"} 1',
  'agentweaver_overdue_effects{kind="sandbox_release"} 2',
  'agentweaver_overdue_effects{kind="queue_deadline"} 3',
  'agentweaver_overdue_effects{kind="run_takeover"} 4',
]
const OF_PROCESS = [
  '# TYPE agentweaver_places_taken gauge',
  'agentweaver_places_taken 2',
  '# TYPE agentweaver_reaped_claims_total counter',
  'agentweaver_reaped_claims_total 5',
  '# TYPE agentweaver_reap_failures_total counter',
  'agentweaver_reap_failures_total 1',
]
const ENDING = [
  '# TYPE process_resident_memory_bytes gauge',
  'process_resident_memory_bytes SIZE',
  '# TYPE nodejs_eventloop_lag_max_seconds gauge',
  'nodejs_eventloop_lag_max_seconds 0.5',
  '# TYPE nodejs_eventloop_lag_p99_seconds gauge',
  'nodejs_eventloop_lag_p99_seconds 0.25',
]

function figures(lookedAt?: Date): ReaperFigures {
  const reaper = new ReaperFigures()
  return Object.assign(reaper, { reaped: 5, failed: 1, ...(lookedAt && { lookedAt }) })
}

const parts = () => ({ operations, active: { taken: 2 }, reaper: figures(), eventLoop })

it('has every metric with its documented name, type and labels, and a HELP text for each', async () => {
  const text = await renderMetrics({ ...parts(), reaper: figures(new Date(1_500)) })

  expect(essence(text)).toEqual([
    ...OF_STORE,
    ...OF_PROCESS,
    '# TYPE agentweaver_reaper_last_round_timestamp_seconds gauge',
    'agentweaver_reaper_last_round_timestamp_seconds 1.5',
    ...ENDING,
  ])
  expect(text.match(/^# HELP \S+ \S/gm)).toHaveLength(13)
})

it('has no time of the last round before the first round', async () => {
  expect(essence(await renderMetrics(parts()))).toEqual([...OF_STORE, ...OF_PROCESS, ...ENDING])
})

it('starts each scrape with fresh values', async () => {
  const same = parts()

  const pages = [await renderMetrics(same), await renderMetrics(same)]

  expect(essence(pages[1] ?? '')).toEqual(essence(pages[0] ?? ''))
})

it('serves everything else while the store cannot be used', async () => {
  const text = await renderMetrics({ ...parts(), operations: undefined })

  expect(essence(text)).toEqual([
    '# TYPE agentweaver_store_usable gauge',
    'agentweaver_store_usable 0',
    ...OF_PROCESS,
    ...ENDING,
  ])
})

it('has a histogram for each wait and a counter for each failure, from zero on', async () => {
  const metrics = createProcessMetrics()

  const text = await renderMetrics({ ...parts(), metrics })

  expect(text.match(/^# TYPE \S+ (?:histogram|counter)$/gm)).toEqual([
    '# TYPE agentweaver_reaped_claims_total counter',
    '# TYPE agentweaver_reap_failures_total counter',
    '# TYPE agentweaver_http_request_duration_seconds histogram',
    '# TYPE agentweaver_launch_duration_seconds histogram',
    '# TYPE agentweaver_bind_duration_seconds histogram',
    '# TYPE agentweaver_turn_duration_seconds histogram',
    '# TYPE agentweaver_approval_wait_seconds histogram',
    '# TYPE agentweaver_store_commit_duration_seconds histogram',
    '# TYPE agentweaver_takeovers_total counter',
    '# TYPE agentweaver_run_failures_total counter',
    '# TYPE agentweaver_lease_losses_total counter',
    '# TYPE agentweaver_retries_total counter',
    '# TYPE agentweaver_stream_cuts_total counter',
  ])
  for (const code of ErrorCode.options)
    expect(text).toContain(`agentweaver_run_failures_total{code="${code}"} 0`)
})
