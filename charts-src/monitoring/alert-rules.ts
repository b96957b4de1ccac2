import { names, type Slice } from '../../contracts/names.ts'

export interface AlertRule {
  readonly alert: string
  readonly expr: string
  readonly for: string
  readonly labels: { readonly severity: 'page' | 'ticket' }
  readonly annotations: { readonly summary: string; readonly remedy: string }
}

/**
 * What a person should hear of. `kube_*` are kube-state-metrics' figures, `agent_sandbox*` the controller's, and
 * `agentweaver_*` our own.
 */
export function alertRules(slice: Slice): AlertRule[] {
  const { serviceAccounts, namespaces } = names(slice)
  const api = `namespace="${namespaces.controlPlane}",deployment="${serviceAccounts.api}"`
  const sandboxes = `namespace="${namespaces.sandboxes}"`
  return [
    {
      alert: 'AgentweaverApiDown',
      expr: `sum(kube_deployment_status_replicas_available{${api}}) < 1`,
      for: '2m',
      labels: { severity: 'page' },
      annotations: {
        summary: 'No replica of the API executor is available: no run starts, waiting runs wait',
        remedy: 'kubectl -n {{ $labels.namespace }} describe deployment and its pods',
      },
    },
    {
      alert: 'AgentweaverApiAtMaximum',
      expr: `kube_horizontalpodautoscaler_status_current_replicas{namespace="${namespaces.controlPlane}",horizontalpodautoscaler="${serviceAccounts.api}"} >= kube_horizontalpodautoscaler_spec_max_replicas`,
      for: '15m',
      labels: { severity: 'ticket' },
      annotations: {
        summary: 'The API executor has run at its largest size for a quarter of an hour',
        remedy: 'raise sizes.api.maxReplicas in the environment file',
      },
    },
    {
      alert: 'AgentweaverSandboxQuotaNearlyUsed',
      expr: `max by (resource) (kube_resourcequota{${sandboxes},type="used"} / ignoring(type) (kube_resourcequota{${sandboxes},type="hard"} > 0)) > 0.9`,
      for: '10m',
      labels: { severity: 'ticket' },
      annotations: {
        summary: 'Nine tenths of the quota {{ $labels.resource }} of the sandboxes are used',
        remedy: 'agentweaver capacity --env <name> says what binds first',
      },
    },
    {
      alert: 'AgentweaverColdStarts',
      expr: `sum(increase(agent_sandbox_claim_creation_total{${sandboxes},launch_type="cold"}[30m])) > 0.1 * sum(increase(agent_sandbox_claim_creation_total{${sandboxes}}[30m]))`,
      for: '30m',
      labels: { severity: 'ticket' },
      annotations: {
        summary: 'More than a tenth of the claims found no warm sandbox',
        remedy: 'agentweaver capacity --env <name> --arrivals <per minute> recommends a warm size',
      },
    },
    {
      alert: 'AgentweaverSandboxesPending',
      expr: `sum(kube_pod_status_phase{${sandboxes},phase="Pending"}) > 0`,
      for: '15m',
      labels: { severity: 'ticket' },
      annotations: {
        summary: 'A sandbox pod has waited for a node for a quarter of an hour',
        remedy: 'kubectl -n {{ $labels.namespace }} get events; the node pool may be at its maximum',
      },
    },
  ]
}
