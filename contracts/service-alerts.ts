import type { AlertRule } from './alert-rule.ts'

/** Where the alerts are, for the commands in their remedies. */
interface Place {
  /** The namespace of the API. */
  readonly namespace: string
  /** A command that shows the logs of the API. */
  readonly logs: string
}

/** What the metrics of the API show of faults. The table "When parts fail" of the runbook has one of these for each fault. */
export function serviceAlerts(place: Place): AlertRule[] {
  return [...storeAlerts(place), ...replicaAlerts(place), ...runAlerts(place)]
}

function storeAlerts({ namespace, logs }: Place): AlertRule[] {
  const here = `namespace="${namespace}"`
  return [
    {
      alert: 'AgentweaverStoreUnusable',
      // A metric that is missing counts as a store that cannot be used.
      expr: `(min(agentweaver_store_usable{${here}}) or vector(0)) < 1`,
      forMinutes: 1,
      severity: 'page',
      annotations: {
        summary:
          'A replica of the API cannot write to the store, so it starts no run and its runs stand still',
        remedy: `${logs} names the fault. The runs continue by themselves when the database works again`,
      },
    },
    {
      alert: 'AgentweaverStoreSlow',
      expr: `histogram_quantile(0.99, sum by (le) (rate(agentweaver_store_commit_duration_seconds_bucket{${here}}[5m]))) > 1`,
      forMinutes: 10,
      severity: 'ticket',
      annotations: {
        summary: 'One transaction in a hundred takes longer than a second',
        remedy:
          'agentweaver top shows the time of a write; look at the load, the locks and the disk of the database',
      },
    },
    {
      alert: 'AgentweaverStoreRetries',
      expr: `sum(increase(agentweaver_retries_total{${here},operation="store"}[10m])) > 20`,
      forMinutes: 5,
      severity: 'ticket',
      annotations: {
        summary: 'Work on the store fails again and again, and is repeated',
        remedy: `${logs} names the fault: connections that are terminated, or statements without an answer`,
      },
    },
  ]
}

function replicaAlerts({ namespace, logs }: Place): AlertRule[] {
  const here = `namespace="${namespace}"`
  return [
    {
      alert: 'AgentweaverRunsWithoutReplica',
      expr: `max(agentweaver_overdue_effects{${here},kind="run_takeover"}) > 0`,
      forMinutes: 1,
      severity: 'page',
      annotations: {
        summary: 'Runs whose replica is gone were not taken over within a minute',
        remedy: `agentweaver top shows which replicas live; ${logs} shows why a takeover failed`,
      },
    },
    {
      alert: 'AgentweaverLeaseLost',
      expr: `sum(increase(agentweaver_lease_losses_total{${here}}[15m])) > 0`,
      forMinutes: 1,
      severity: 'ticket',
      annotations: {
        summary: 'A replica stood still or could not reach the store, and lost its runs to the others',
        remedy: `${logs} shows which replica; look at the load of its node and at its way to the database`,
      },
    },
    {
      alert: 'AgentweaverEventLoopSlow',
      expr: `max(nodejs_eventloop_lag_p99_seconds{${here}}) > 0.25`,
      forMinutes: 5,
      severity: 'ticket',
      annotations: {
        summary: 'A replica of the API answers late, because it has too much to do',
        remedy: 'raise sizes.api in the environment file, or find the client that reads too much',
      },
    },
    {
      alert: 'AgentweaverStreamsRefused',
      expr: `sum(increase(agentweaver_stream_cuts_total{${here},reason="refused"}[10m])) > 10`,
      forMinutes: 5,
      severity: 'ticket',
      annotations: {
        summary: 'Event streams are refused, because a client or all clients together have too many open',
        remedy: `${logs} shows the requests with status 429`,
      },
    },
  ]
}

function runAlerts({ namespace, logs }: Place): AlertRule[] {
  const here = `namespace="${namespace}"`
  return [
    {
      alert: 'AgentweaverConfigurationRejected',
      expr: `sum(increase(agentweaver_run_failures_total{${here},code=~"configure_rejected|configure_failed"}[15m])) > 2`,
      forMinutes: 1,
      severity: 'page',
      annotations: {
        summary: 'Sandboxes reject their configuration, so runs fail at their start',
        remedy:
          'compare the image of the sandbox templates with the image of the API: they are of one release',
      },
    },
    {
      alert: 'AgentweaverSandboxesLost',
      expr: `sum(increase(agentweaver_retries_total{${here},operation="run"}[15m])) + sum(increase(agentweaver_run_failures_total{${here},code="sandbox_lost"}[15m])) > 3`,
      forMinutes: 1,
      severity: 'ticket',
      annotations: {
        summary: 'Several runs lost their sandbox in 15 minutes',
        remedy:
          'kubectl get nodes, and the events of the sandbox namespace: a node failed, or pods were killed for memory',
      },
    },
    {
      alert: 'AgentweaverOverdueWork',
      expr: `max by (kind) (agentweaver_overdue_effects{${here},kind!="run_takeover"}) > 0`,
      forMinutes: 5,
      severity: 'ticket',
      annotations: {
        summary: 'Work of the kind {{ $labels.kind }} is overdue',
        remedy: `agentweaver top shows how much; ${logs} shows why it fails`,
      },
    },
    {
      alert: 'AgentweaverQueueOld',
      expr: `max by (kind) (agentweaver_queue_oldest_age_seconds{${here}}) > 600`,
      forMinutes: 5,
      severity: 'ticket',
      annotations: {
        summary: 'A run has waited longer than ten minutes for a sandbox of the kind {{ $labels.kind }}',
        remedy:
          'agentweaver top shows the queue and the pools; agentweaver capacity --env <name> shows the limit',
      },
    },
  ]
}
