import { describe, expect, it } from 'vitest'
import { dashboard } from '../../charts-src/monitoring/dashboard.ts'
import { alerts } from '../../contracts/alerts.ts'
import { SandboxKind } from '../../contracts/names.ts'
import { platformAlerts } from '../../infra/model/alerts.ts'
import { controllerScrape } from '../../infra/model/controller-hardening.ts'
import type { EventLoopMonitor } from '../../runtime/api/metrics/event-loop-lag.ts'
import { createProcessMetrics } from '../../runtime/api/metrics/process-metrics.ts'
import { renderMetrics } from '../../runtime/api/runs/reads/metrics.ts'
import { ReaperFigures } from '../../runtime/api/runs/replicas/reaper.ts'

/** What Azure's collector keeps of kube-state-metrics by itself, of what we ask for (its minimal ingestion profile). */
const KEPT =
  /^kube_(?:pod_status_phase|resourcequota|deployment_status_replicas_available|horizontalpodautoscaler_(?:status_current|spec_max)_replicas|.*_labels)$/

/** Figures of the controller and their labels, as release 1.0 has them. */
const OF_CONTROLLER: Readonly<Record<string, readonly string[]>> = {
  agent_sandboxes: [
    'namespace',
    'ready_condition',
    'expired',
    'launch_type',
    'sandbox_template',
    'owned_by',
    'created_by',
  ],
  agent_sandbox_claim_creation_total: ['namespace', 'launch_type'],
}

interface Reading {
  readonly metric: string
  readonly labels: readonly string[]
}

/** Every figure that an expression reads, with the labels that it selects by. */
function readingsOf(expr: string): Reading[] {
  const ungrouped = expr.replaceAll(/\b(?:by|ignoring) ?\([^)]*\)/g, '')
  return [...ungrouped.matchAll(/([a-z]+(?:_[a-z0-9]+)+)(?![a-z0-9_(])(?:\{([^}]*)\})?/g)].map(
    ([, metric = '', selector = '']) => ({
      metric,
      labels: [...selector.matchAll(/([a-z_]+)!?=/g)].map(([, label = '']) => label),
    }),
  )
}

const operations = {
  figures: { runs: new Map(), queue: [], gates: [], unreleased: 0 },
  overdue: { approval_expiry: 0, sandbox_release: 0, queue_deadline: 0, run_takeover: 0 },
}
const metrics = createProcessMetrics()
// A histogram has samples of the label values that were observed.
metrics.httpRequests.observe({ method: 'GET', route: '/readyz', status: '5xx' }, 1)
metrics.launches.observe({ launch: 'cold' }, 1)
metrics.binds.observe({ launch: 'cold' }, 1)
metrics.turns.observe({ state: 'completed' }, 1)
metrics.approvalWaits.observe({ kind: 'shell', decision: 'approved' }, 1)
metrics.commits.observe({ result: 'committed' }, 1)
const eventLoop = { read: () => ({ max: 0, p99: 0 }) } as EventLoopMonitor
const reaper = new ReaperFigures()
reaper.lookedAt = new Date()
/** Figures of the API and the labels that each carries itself. */
async function served(): Promise<Map<string, Set<string>>> {
  const text = await renderMetrics({ operations, active: { taken: 0 }, reaper, metrics, eventLoop })
  const found = new Map<string, Set<string>>()
  for (const [, name = '', labels = ''] of text.matchAll(/^([a-z_0-9]+)(?:\{([^}]*)\})? \S+$/gm)) {
    const known = found.get(name) ?? new Set<string>()
    for (const [, label = ''] of labels.matchAll(/([a-z_]+)=/g)) known.add(label)
    found.set(name, known)
  }
  return found
}

/** What the collector adds to each figure of a pod. */
const OF_TARGET = ['namespace', 'pod', 'container']

async function faults(expr: string): Promise<string[]> {
  const own = await served()
  return readingsOf(expr).flatMap(({ metric, labels }) => {
    if (metric.startsWith('kube_')) return KEPT.test(metric) ? [] : [`${metric} is not kept`]
    const known = OF_CONTROLLER[metric] ?? own.get(metric)
    if (!known) return [`nothing serves ${metric}`]
    const all = new Set([...known, ...OF_TARGET])
    return labels.filter((label) => !all.has(label)).map((label) => `${metric} has no label ${label}`)
  })
}

const panels = dashboard({ kind: 'base' }).panels.map(({ title, targets }) => ({
  name: title,
  expr: targets[0]?.expr ?? '',
}))
const rules = platformAlerts('proxy').map(({ alert, expr }) => ({ name: alert, expr }))

describe.each([...rules, ...panels])('$name', ({ expr }) => {
  it('reads metrics that a program serves, by labels that they have', async () => {
    expect(readingsOf(expr)).not.toEqual([])
    expect(await faults(expr)).toEqual([])
  })

  it('reads the metrics of one namespace or one cluster, and has balanced parentheses', () => {
    for (const { metric, labels } of readingsOf(expr))
      if (!metric.startsWith('kube_node_')) expect(labels, metric).toContain('namespace')
    for (const [open, close] of ['()', '{}', '[]'])
      expect(expr.split(open ?? '').length, expr).toBe(expr.split(close ?? '').length)
  })
})

it('finds a metric that no program serves, and a label that it does not have', async () => {
  expect(await faults('sum(increase(agentweaver_reaped_total{namespace="a"}[5m])) > 0')).toEqual([
    'nothing serves agentweaver_reaped_total',
  ])
  expect(await faults('agentweaver_runs{stat="failed"}')).toEqual(['agentweaver_runs has no label stat'])
  expect(await faults('kube_pod_container_status_ready > 0')).toEqual([
    'kube_pod_container_status_ready is not kept',
  ])
})

it('pages only for urgent alerts', () => {
  const paging = alerts({ warm: SandboxKind.options, hasEgressProxy: true }).filter(
    ({ severity }) => severity === 'page',
  )

  expect(paging.map(({ alert }) => alert)).toEqual([
    'AgentweaverPoolEmpty-agent',
    'AgentweaverPoolEmpty-command',
    'AgentweaverClaimsPending',
    'AgentweaverQuotaNearlyUsed',
    'AgentweaverApiDown',
    'AgentweaverStoreUnusable',
    'AgentweaverRunsWithoutReplica',
    'AgentweaverConfigurationRejected',
    'AgentweaverEgressProxyDown',
    'AgentweaverReaperDeleted',
  ])
})

it('has no alert for the egress proxy in a cluster without one', () => {
  expect(JSON.stringify(platformAlerts('fqdn'))).not.toContain('EgressProxy')
})

it('keeps the namespace of the sandboxes that the controller writes on its metrics', () => {
  expect(controllerScrape()['spec']).toMatchObject({
    podMetricsEndpoints: [{ port: 'metrics', honorLabels: true }],
  })
})
