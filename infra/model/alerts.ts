import { type Alert, type AlertRule, withRunbook } from '../../contracts/alert-rule.ts'
import { alerts } from '../../contracts/alerts.ts'
import { KATA_NODE_LABEL } from '../../contracts/labels.ts'
import { CONTROLLER_NAMESPACE, SandboxKind } from '../../contracts/names.ts'

export type EgressMode = 'proxy' | 'fqdn' | 'closed'

/** Alerts of the platform in managed Prometheus: the alerts of the base deployment and of the cluster. */
export function platformAlerts(egressMode: EgressMode): Alert[] {
  return [
    ...alerts({ warm: SandboxKind.options, hasEgressProxy: egressMode === 'proxy' }),
    ...CLUSTER.map(withRunbook),
  ]
}

const CLUSTER: readonly AlertRule[] = [
  {
    alert: 'AgentweaverControllerDown',
    expr: `(sum(kube_deployment_status_replicas_available{namespace="${CONTROLLER_NAMESPACE}"}) or vector(0)) < 1`,
    forMinutes: 3,
    severity: 'page',
    annotations: {
      summary: 'The agent-sandbox controller does not run: no claim is served and no sandbox is removed',
      remedy: `kubectl -n ${CONTROLLER_NAMESPACE} describe deployment`,
    },
  },
  {
    alert: 'AgentweaverNoKataNode',
    expr: `(sum(kube_node_labels{label_agentweaver_io_kata="${KATA_NODE_LABEL.value}"}) or vector(0)) < 1`,
    forMinutes: 10,
    severity: 'page',
    annotations: {
      summary: 'The cluster has no node for sandboxes',
      remedy: 'az aks nodepool show, and the quota of the size in the region',
    },
  },
]
