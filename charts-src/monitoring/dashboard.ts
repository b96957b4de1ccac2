import { names, type Slice } from '../../contracts/names.ts'

const COLUMNS = 24
const SIZE = { w: COLUMNS / 2, h: 8 }

/** A Grafana dashboard of runs, sandboxes, quota usage, waits, and the reaper's deletions. */
export function dashboard(slice: Slice) {
  const { prefix, namespaces } = names(slice)
  const api = `namespace="${namespaces.controlPlane}"`
  const sandboxes = `namespace="${namespaces.sandboxes}"`
  const panels = [
    { title: 'Runs by state', expr: `max by (state) (agentweaver_runs{${api}})`, legend: '{{state}}' },
    {
      title: 'Places taken by runs, by replica',
      expr: `agentweaver_places_taken{${api}}`,
      legend: '{{pod}}',
    },
    {
      title: 'Sandboxes by launch and readiness',
      expr: `sum by (launch_type, ready_condition) (agent_sandboxes{${sandboxes}})`,
      legend: '{{launch_type}} {{ready_condition}}',
    },
    {
      title: 'Claims per minute, warm and cold',
      expr: `60 * sum by (launch_type) (rate(agent_sandbox_claim_creation_total{${sandboxes}}[5m]))`,
      legend: '{{launch_type}}',
    },
    {
      title: 'Quota used',
      expr: `kube_resourcequota{${sandboxes},type="used"} / ignoring(type) (kube_resourcequota{${sandboxes},type="hard"} > 0)`,
      legend: '{{resource}}',
    },
    {
      title: 'Sandboxes that the reaper had to delete, by hour',
      expr: `sum(increase(agentweaver_reaped_claims_total{${api}}[1h]))`,
      legend: 'deleted',
    },
    {
      title: 'Runs that failed, by code, by hour',
      expr: `sum by (code) (increase(agentweaver_run_failures_total{${api}}[1h])) > 0`,
      legend: '{{code}}',
    },
    {
      title: 'Launch, 95th percentile',
      expr: `histogram_quantile(0.95, sum by (le, launch) (rate(agentweaver_launch_duration_seconds_bucket{${api}}[10m])))`,
      legend: '{{launch}}',
    },
    {
      title: 'Longest wait in the queue',
      expr: `max by (kind) (agentweaver_queue_oldest_age_seconds{${api}})`,
      legend: '{{kind}}',
    },
    {
      title: 'Requests that wait for a person',
      expr: `max by (kind) (agentweaver_open_gates{${api}})`,
      legend: '{{kind}}',
    },
    {
      title: 'Commit of the store, 99th percentile, by replica',
      expr: `histogram_quantile(0.99, sum by (le, pod) (rate(agentweaver_store_commit_duration_seconds_bucket{${api}}[10m])))`,
      legend: '{{pod}}',
    },
    {
      title: 'Memory of the API, by replica',
      expr: `process_resident_memory_bytes{${api}}`,
      legend: '{{pod}}',
    },
  ]
  return {
    uid: prefix,
    title: `Agentweaver (${prefix})`,
    schemaVersion: 39,
    refresh: '30s',
    time: { from: 'now-6h', to: 'now' },
    panels: panels.map(({ title, expr, legend }, index) => ({
      id: index + 1,
      type: 'timeseries',
      title,
      gridPos: { ...SIZE, x: (index % 2) * SIZE.w, y: Math.floor(index / 2) * SIZE.h },
      targets: [{ refId: 'A', expr, legendFormat: legend }],
    })),
  }
}
