import { type Alert, type AlertRule, withRunbook } from './alert-rule.ts'
import { COMPONENT_LABEL, COMPONENTS } from './labels.ts'
import { names, type SandboxKind } from './names.ts'
import { serviceAlerts } from './service-alerts.ts'

/**
 * Alerts of the base deployment; preview slices have none. On Azure they become Azure rule groups, elsewhere
 * PrometheusRule objects. `kube_*` metrics come from kube-state-metrics, `agent_sandbox*` from the controller, and
 * `agentweaver_*` from the API.
 */
export function alerts({ warm, hasEgressProxy }: Alerted): Alert[] {
  return [
    ...sandboxAlerts(warm),
    ...apiAlerts(),
    ...serviceAlerts({ namespace: API, logs: LOGS }),
    ...(hasEgressProxy ? egressProxyAlerts() : []),
    ...reaperAlerts(),
  ].map(withRunbook)
}

export interface Alerted {
  /** The sandbox kinds whose pools keep a sandbox ready. */
  readonly warm: readonly SandboxKind[]
  /** Whether sandboxes reach the network through the egress proxy. */
  readonly hasEgressProxy: boolean
}

const BASE = names({ kind: 'base' })
const { controlPlane: API, sandboxes: SANDBOXES, egress: EGRESS } = BASE.namespaces
const NAME = BASE.serviceAccounts.api
const HERE = `namespace="${SANDBOXES}"`
const LOGS = `kubectl -n ${API} logs --prefix -l ${COMPONENT_LABEL}=${COMPONENTS.api}`

function sandboxAlerts(warm: readonly SandboxKind[]): AlertRule[] {
  return [
    ...warm.map((kind) => poolEmpty(BASE.pool(kind), kind)),
    {
      alert: 'AgentweaverClaimsPending',
      expr: `sum(kube_pod_status_phase{${HERE},phase="Pending"}) > 0`,
      forMinutes: 10,
      severity: 'page',
      annotations: {
        summary: 'Sandboxes have been waiting for a node for ten minutes',
        remedy: `kubectl -n ${SANDBOXES} get events. The node pool may be at its maximum, or Azure may have no capacity for its VM size.`,
      },
    },
    {
      alert: 'AgentweaverQuotaNearlyUsed',
      expr: `max by (resource) (kube_resourcequota{${HERE},type="used"} / ignoring(type) (kube_resourcequota{${HERE},type="hard"} > 0)) > 0.9`,
      forMinutes: 10,
      severity: 'page',
      annotations: {
        summary: 'More than 90 % of the sandbox quota for {{ $labels.resource }} is used',
        remedy: 'agentweaver capacity --env <name> shows which limit is reached first',
      },
    },
    {
      alert: 'AgentweaverColdStarts',
      expr: `sum(increase(agent_sandbox_claim_creation_total{${HERE},launch_type="cold"}[30m])) > 0.1 * sum(increase(agent_sandbox_claim_creation_total{${HERE}}[30m]))`,
      forMinutes: 30,
      severity: 'ticket',
      annotations: {
        summary: 'More than 10 % of the claims found no warm sandbox',
        remedy: 'agentweaver capacity --env <name> --arrivals <per minute> recommends a pool size',
      },
    },
  ]
}

/** `or vector(0)` makes the alert fire when the metric is missing too, because the pool may then be empty. */
const poolEmpty = (pool: string, kind: SandboxKind): AlertRule => ({
  alert: `AgentweaverPoolEmpty-${kind}`,
  expr: `(sum(agent_sandboxes{${HERE},ready_condition="true",owned_by="SandboxWarmPool",sandbox_template="${pool}"}) or vector(0)) < 1`,
  forMinutes: 5,
  severity: 'page',
  annotations: {
    summary: `No warm sandbox of the pool ${pool} is ready, so every run waits for a cold start`,
    remedy: `kubectl -n ${SANDBOXES} describe sandboxwarmpool ${pool}. If some are ready, the controller's metrics are not being scraped.`,
  },
})

function apiAlerts(): AlertRule[] {
  return [
    {
      alert: 'AgentweaverApiDown',
      expr: `(sum(kube_deployment_status_replicas_available{namespace="${API}",deployment="${NAME}"}) or vector(0)) < 1`,
      forMinutes: 2,
      severity: 'page',
      annotations: {
        summary: 'No replica of the API is available, so no run can start',
        remedy: `kubectl -n ${API} describe deployment ${NAME}, and its pods`,
      },
    },
    {
      alert: 'AgentweaverApiAtMaximum',
      expr: atMaximum(API, NAME),
      forMinutes: 15,
      severity: 'ticket',
      annotations: {
        summary: 'The API has been at its maximum number of replicas for 15 minutes',
        remedy: 'raise sizes.api.maxReplicas in the environment file',
      },
    },
  ]
}

function egressProxyAlerts(): AlertRule[] {
  const name = BASE.serviceAccounts.egressProxy
  return [
    {
      alert: 'AgentweaverEgressProxyDown',
      expr: `(sum(kube_deployment_status_replicas_available{namespace="${EGRESS}",deployment="${name}"}) or vector(0)) < 1`,
      forMinutes: 2,
      severity: 'page',
      annotations: {
        summary: 'No replica of the egress proxy is available, so no sandbox reaches any destination',
        remedy: `kubectl -n ${EGRESS} describe deployment ${name}, and its pods. A replica is ready while it receives the destinations from the API`,
      },
    },
    {
      alert: 'AgentweaverEgressProxyAtMaximum',
      expr: atMaximum(EGRESS, name),
      forMinutes: 15,
      severity: 'ticket',
      annotations: {
        summary: 'The egress proxy has been at its maximum number of replicas for 15 minutes',
        remedy: 'raise sizes.egressProxy.maxReplicas in the environment file',
      },
    },
  ]
}

function atMaximum(namespace: string, autoscaler: string): string {
  const of = `namespace="${namespace}",horizontalpodautoscaler="${autoscaler}"`
  return `kube_horizontalpodautoscaler_status_current_replicas{${of}} >= kube_horizontalpodautoscaler_spec_max_replicas{${of}}`
}

/** Normal operation leaves nothing for the reaper to delete, so any deletion points to a bug elsewhere. */
function reaperAlerts(): AlertRule[] {
  const here = `namespace="${API}"`
  return [
    {
      alert: 'AgentweaverReaperDeleted',
      // Each replica counts only its own deletions.
      expr: `sum(increase(agentweaver_reaped_claims_total{${here}}[15m])) + sum(increase(agentweaver_reap_failures_total{${here}}[15m])) > 0`,
      forMinutes: 1,
      severity: 'page',
      annotations: {
        summary: 'The reaper deleted sandboxes that no run uses, because their release failed',
        remedy: `${LOGS} shows each sandbox with the reason; the audit log has it as sandbox.reap`,
      },
    },
    {
      alert: 'AgentweaverReaperStopped',
      expr: `(time() - max(agentweaver_reaper_last_round_timestamp_seconds{${here}})) > 900`,
      forMinutes: 1,
      severity: 'ticket',
      annotations: {
        summary: 'The reaper has not completed a round for 15 minutes',
        remedy: `${LOGS} shows why each round failed`,
      },
    },
    {
      alert: 'AgentweaverSandboxesOutlived',
      expr: `sum(agent_sandboxes{${HERE},expired="true"}) > 0`,
      forMinutes: 15,
      severity: 'ticket',
      annotations: {
        summary: 'Sandboxes still exist 15 minutes after their end, because their release failed',
        remedy: `kubectl -n ${SANDBOXES} get sandboxclaims --sort-by=.spec.lifecycle.shutdownTime`,
      },
    },
  ]
}
