import { COMPONENT_LABEL, COMPONENTS } from './labels.ts'
import { names, SandboxKind } from './names.ts'

export interface Alert {
  readonly alert: string
  readonly expr: string
  /** The condition must hold this long before the alert fires. */
  readonly forMinutes: number
  readonly severity: 'page' | 'ticket'
  readonly annotations: { readonly summary: string; readonly remedy: string }
}

/**
 * Alerts of the base deployment; preview slices have none. On Azure they become Azure rule groups, elsewhere
 * PrometheusRule objects. `kube_*` metrics come from kube-state-metrics, `agent_sandbox*` from the controller, and
 * `agentweaver_*` from the API. `warm` lists the sandbox kinds whose pools keep a sandbox ready.
 */
export function alerts(warm: readonly SandboxKind[] = SandboxKind.options): Alert[] {
  return [...sandboxAlerts(warm), ...apiAlerts(), ...reaperAlerts()]
}

const BASE = names({ kind: 'base' })
const { controlPlane: API, sandboxes: SANDBOXES } = BASE.namespaces
const NAME = BASE.serviceAccounts.api
const HERE = `namespace="${SANDBOXES}"`
const LOGS = `kubectl -n ${API} logs --prefix -l ${COMPONENT_LABEL}=${COMPONENTS.api}`

function sandboxAlerts(warm: readonly SandboxKind[]): Alert[] {
  return [
    ...warm.map((kind) => poolEmpty(BASE.pool(kind), kind)),
    {
      alert: 'AgentweaverClaimsPending',
      expr: `sum(kube_pod_status_phase{${HERE},phase="Pending"}) > 0`,
      forMinutes: 10,
      severity: 'page',
      annotations: {
        summary: 'Sandboxes have waited for a node for ten minutes',
        remedy: `kubectl -n ${SANDBOXES} get events; the node pool may be at its maximum, or its size sold out`,
      },
    },
    {
      alert: 'AgentweaverQuotaNearlyUsed',
      expr: `max by (resource) (kube_resourcequota{${HERE},type="used"} / ignoring(type) (kube_resourcequota{${HERE},type="hard"} > 0)) > 0.9`,
      forMinutes: 10,
      severity: 'page',
      annotations: {
        summary: 'Nine tenths of the quota {{ $labels.resource }} of the sandboxes are used',
        remedy: 'agentweaver capacity --env <name> says what binds first',
      },
    },
    {
      alert: 'AgentweaverColdStarts',
      expr: `sum(increase(agent_sandbox_claim_creation_total{${HERE},launch_type="cold"}[30m])) > 0.1 * sum(increase(agent_sandbox_claim_creation_total{${HERE}}[30m]))`,
      forMinutes: 30,
      severity: 'ticket',
      annotations: {
        summary: 'More than a tenth of the claims found no warm sandbox',
        remedy: 'agentweaver capacity --env <name> --arrivals <per minute> recommends a warm size',
      },
    },
  ]
}

/** `or vector(0)` makes the alert fire when the metric is missing too, because the pool may then be empty. */
const poolEmpty = (pool: string, kind: SandboxKind): Alert => ({
  alert: `AgentweaverPoolEmpty-${kind}`,
  expr: `(sum(agent_sandboxes{${HERE},ready_condition="true",owned_by="SandboxWarmPool",sandbox_template="${pool}"}) or vector(0)) < 1`,
  forMinutes: 5,
  severity: 'page',
  annotations: {
    summary: `No warm sandbox of the pool ${pool} is ready: every run waits for a machine to start`,
    remedy: `kubectl -n ${SANDBOXES} describe sandboxwarmpool ${pool}; if some are ready, the controller's figures are not collected`,
  },
})

function apiAlerts(): Alert[] {
  const autoscaler = `namespace="${API}",horizontalpodautoscaler="${NAME}"`
  return [
    {
      alert: 'AgentweaverApiDown',
      expr: `(sum(kube_deployment_status_replicas_available{namespace="${API}",deployment="${NAME}"}) or vector(0)) < 1`,
      forMinutes: 2,
      severity: 'page',
      annotations: {
        summary: 'No replica of the API executor is available: no run starts, waiting runs wait',
        remedy: `kubectl -n ${API} describe deployment ${NAME}, and its pods`,
      },
    },
    {
      alert: 'AgentweaverApiAtMaximum',
      expr: `kube_horizontalpodautoscaler_status_current_replicas{${autoscaler}} >= kube_horizontalpodautoscaler_spec_max_replicas{${autoscaler}}`,
      forMinutes: 15,
      severity: 'ticket',
      annotations: {
        summary: 'The API executor has run at its largest size for a quarter of an hour',
        remedy: 'raise sizes.api.maxReplicas in the environment file',
      },
    },
  ]
}

/** Normal operation leaves nothing for the reaper to delete, so any deletion points to a bug elsewhere. */
function reaperAlerts(): Alert[] {
  const here = `namespace="${API}"`
  return [
    {
      alert: 'AgentweaverReaperDeleted',
      // Each replica counts only its own deletions.
      expr: `sum(increase(agentweaver_reaped_claims_total{${here}}[15m])) + sum(increase(agentweaver_reap_failures_total{${here}}[15m])) > 0`,
      forMinutes: 1,
      severity: 'page',
      annotations: {
        summary:
          'The reaper had to delete sandboxes that no run has: whoever claimed them did not give them back',
        remedy: `${LOGS}: each is named there with the reason, and in the audit log as sandbox.reap`,
      },
    },
    {
      alert: 'AgentweaverReaperStopped',
      expr: `(time() - max(agentweaver_reaper_last_round_timestamp_seconds{${here}})) > 900`,
      forMinutes: 1,
      severity: 'ticket',
      annotations: {
        summary: 'No replica has looked for forgotten sandboxes for a quarter of an hour',
        remedy: `${LOGS} says what each look failed with`,
      },
    },
    {
      alert: 'AgentweaverSandboxesOutlived',
      expr: `sum(agent_sandboxes{${HERE},expired="true"}) > 0`,
      forMinutes: 15,
      severity: 'ticket',
      annotations: {
        summary:
          'Sandboxes are there a quarter of an hour after their end: their release is broken somewhere',
        remedy: `kubectl -n ${SANDBOXES} get sandboxclaims --sort-by=.spec.lifecycle.shutdownTime`,
      },
    },
  ]
}
