const HERE = 'namespace="agentweaver",pod="api-1"'
const OTHER = 'namespace="agentweaver",pod="api-2"'

/** `values` in the notation of promtool: `0+1x10` is 0, then 10 steps of 1, one for each scrape. */
interface Series {
  readonly metric: string
  readonly labels: string
  readonly values: string
}

/** What the metrics show in a fault, and in normal operation. */
export interface AlertCase {
  readonly alert: string
  readonly fault: readonly Series[]
  readonly normal: readonly Series[]
  /** Labels of the alert in addition to its severity. */
  readonly labels?: Readonly<Record<string, string>>
  /** Time in the fault after which the alert has fired. */
  readonly after: string
}

const series = (metric: string, values: string, labels = ''): Series => ({
  metric: `agentweaver_${metric}`,
  labels: labels === '' ? HERE : `${HERE},${labels}`,
  values,
})

/** All commits of a scrape take less than 5 ms, or more than 5 s. */
const commits = (fast: boolean): Series[] =>
  ['0.005', '1', '10', '+Inf'].map((le) => {
    const isBelow = !fast && (le === '0.005' || le === '1')
    return series('store_commit_duration_seconds_bucket', isBelow ? '0x60' : '0+100x60', `le="${le}"`)
  })

export const ALERT_CASES: readonly AlertCase[] = [
  {
    alert: 'AgentweaverStoreUnusable',
    fault: [series('store_usable', '1x10 0x20'), { ...series('store_usable', '1x30'), labels: OTHER }],
    normal: [series('store_usable', '1x40'), { ...series('store_usable', '1x40'), labels: OTHER }],
    after: '8m',
  },
  { alert: 'AgentweaverStoreSlow', fault: commits(false), normal: commits(true), after: '20m' },
  {
    alert: 'AgentweaverStoreRetries',
    fault: [series('retries_total', '0+5x60', 'operation="store"')],
    normal: [
      series('retries_total', '0x20 3x40', 'operation="store"'),
      series('retries_total', '0+5x60', 'operation="launch"'),
    ],
    after: '20m',
  },
  {
    alert: 'AgentweaverRunsWithoutReplica',
    fault: [series('overdue_effects', '0x4 2x30', 'kind="run_takeover"')],
    // A takeover that is complete at the next scrape.
    normal: [series('overdue_effects', '0 0 1 0x30', 'kind="run_takeover"')],
    after: '5m',
  },
  {
    alert: 'AgentweaverLeaseLost',
    fault: [series('lease_losses_total', '0x4 1x30', 'lease="process"')],
    normal: [series('lease_losses_total', '7x40', 'lease="process"')],
    after: '6m',
  },
  {
    alert: 'AgentweaverEventLoopSlow',
    fault: [{ metric: 'nodejs_eventloop_lag_p99_seconds', labels: HERE, values: '0.4x40' }],
    normal: [{ metric: 'nodejs_eventloop_lag_p99_seconds', labels: HERE, values: '0.02 0.9 0.02x40' }],
    after: '10m',
  },
  {
    alert: 'AgentweaverStreamsRefused',
    fault: [series('stream_cuts_total', '0+3x60', 'reason="refused"')],
    normal: [series('stream_cuts_total', '0+30x60', 'reason="reader_closed"')],
    after: '20m',
  },
  {
    alert: 'AgentweaverConfigurationRejected',
    fault: [series('run_failures_total', '0x4 5x30', 'code="configure_rejected"')],
    normal: [
      series('run_failures_total', '0x4 1x30', 'code="configure_rejected"'),
      series('run_failures_total', '0+5x40', 'code="agent_failed"'),
    ],
    after: '7m',
  },
  {
    alert: 'AgentweaverSandboxesLost',
    fault: [
      series('retries_total', '0x4 4x30', 'operation="run"'),
      series('run_failures_total', '0x4 1x30', 'code="sandbox_lost"'),
    ],
    normal: [
      series('retries_total', '0x4 1x30', 'operation="run"'),
      series('run_failures_total', '0x4 1x30', 'code="sandbox_lost"'),
    ],
    after: '7m',
  },
  {
    alert: 'AgentweaverOverdueWork',
    fault: [series('overdue_effects', '1x40', 'kind="sandbox_release"')],
    normal: [
      series('overdue_effects', '0x40', 'kind="sandbox_release"'),
      series('overdue_effects', '1x40', 'kind="run_takeover"'),
    ],
    labels: { kind: 'sandbox_release' },
    after: '10m',
  },
  {
    alert: 'AgentweaverQueueOld',
    fault: [series('queue_oldest_age_seconds', '0+30x60', 'kind="agent"')],
    normal: [series('queue_oldest_age_seconds', '590x60', 'kind="agent"')],
    labels: { kind: 'agent' },
    after: '25m',
  },
]
