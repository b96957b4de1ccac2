import { KATA_NODE_LABEL } from '../../contracts/labels.ts'
import { CONTROLLER_NAMESPACE, names, SandboxKind } from '../../contracts/names.ts'

export interface PlatformAlert {
  readonly alert: string
  readonly expr: string
  readonly forMinutes: number
  /** Azure's scale: 0 critical to 4 verbose. Up to 2 somebody is paged. */
  readonly severity: 0 | 1 | 2 | 3
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: { readonly summary: string; readonly remedy: string }
}

const PAGE = 1
const TICKET = 3

/**
 * Alerts of the whole platform, in managed Prometheus, which reads none of the rules that the tree of the charts holds.
 * `kube_*` are kube-state-metrics' figures, `agent_sandbox*` the controller's.
 */
export function platformAlerts(): PlatformAlert[] {
  const base = names({ kind: 'base' })
  const sandboxes = `namespace="${base.namespaces.sandboxes}"`
  const page = { labels: { severity: 'page' }, severity: PAGE } as const
  const ticket = { labels: { severity: 'ticket' }, severity: TICKET } as const
  return [
    ...SandboxKind.options.map((kind) => ({
      ...page,
      alert: `AgentweaverPoolEmpty-${kind}`,
      expr: `(sum(agent_sandboxes{${sandboxes},ready_condition="true",owned_by="SandboxWarmPool",sandbox_template="${base.pool(kind)}"}) or vector(0)) < 1`,
      forMinutes: 5,
      annotations: {
        summary: `No warm sandbox of the pool ${base.pool(kind)} is ready: every run waits for a machine to start`,
        remedy: `kubectl -n ${base.namespaces.sandboxes} describe sandboxwarmpool ${base.pool(kind)}`,
      },
    })),
    {
      ...page,
      alert: 'AgentweaverClaimsPending',
      expr: `sum(kube_pod_status_phase{${sandboxes},phase="Pending"}) > 0`,
      forMinutes: 10,
      annotations: {
        summary: 'Sandboxes have waited for a node for ten minutes',
        remedy:
          'The node pool may be at its maximum, or Azure out of the size: agentweaver verify --env <name>',
      },
    },
    {
      ...page,
      alert: 'AgentweaverControllerDown',
      expr: `(sum(kube_deployment_status_replicas_available{namespace="${CONTROLLER_NAMESPACE}"}) or vector(0)) < 1`,
      forMinutes: 3,
      annotations: {
        summary: 'The agent-sandbox controller does not run: no claim is served and no sandbox is removed',
        remedy: `kubectl -n ${CONTROLLER_NAMESPACE} describe deployment`,
      },
    },
    {
      ...ticket,
      alert: 'AgentweaverSandboxesOutlived',
      // What a release should have taken away and a reaper has to: the belt shows that the suspender broke.
      expr: `sum(agent_sandboxes{${sandboxes},expired="true"}) > 0`,
      forMinutes: 15,
      annotations: {
        summary:
          'Sandboxes are there a quarter of an hour after their end: their release is broken somewhere',
        remedy: `kubectl -n ${base.namespaces.sandboxes} get sandboxclaims --sort-by=.spec.lifecycle.shutdownTime`,
      },
    },
    {
      ...page,
      alert: 'AgentweaverQuotaNearlyUsed',
      expr: `max by (resource) (kube_resourcequota{${sandboxes},type="used"} / ignoring(type) (kube_resourcequota{${sandboxes},type="hard"} > 0)) > 0.9`,
      forMinutes: 10,
      annotations: {
        summary: 'Nine tenths of the quota {{ $labels.resource }} of the sandboxes are used',
        remedy: 'agentweaver capacity --env <name> says what binds first',
      },
    },
    {
      ...page,
      alert: 'AgentweaverNoKataNode',
      expr: `(sum(kube_node_labels{label_agentweaver_io_kata="${KATA_NODE_LABEL.value}"}) or vector(0)) < 1`,
      forMinutes: 10,
      annotations: {
        summary: 'The cluster has no node for sandboxes',
        remedy: 'az aks nodepool show, and the quota of the size in the region',
      },
    },
  ]
}
