import { Construct } from 'constructs'
import { AZURE_POD_MONITOR, SCRAPE_INTERVAL } from '../../contracts/pod-monitor.ts'
import type { Environment } from '../environment/schema.ts'
import { PodMonitor as AzurePodMonitor } from '../imports/azure-monitor.js'
import { PodMonitor, type PodMonitorSpec } from '../imports/prometheus-operator.js'
import type { PodsOf } from '../network/policy-objects.ts'

export interface WorkloadMonitorProps {
  /** The pods, whose port `metrics` is read. */
  readonly workload: PodsOf & { readonly name: string }
  readonly collector: Exclude<Environment['infra']['monitoring']['collector'], 'none'>
  readonly path: string
}

/** A PodMonitor in the API group of the environment's metrics collector. */
export class WorkloadMonitor extends Construct {
  constructor(scope: Construct, id: string, { workload, collector, path }: WorkloadMonitorProps) {
    super(scope, id)
    const { name, namespace, labels } = workload
    const metadata = { name, namespace }
    const spec: PodMonitorSpec = {
      selector: { matchLabels: labels },
      podMetricsEndpoints: [{ port: 'metrics', path, interval: SCRAPE_INTERVAL }],
    }
    if (collector === 'azure') {
      new AzurePodMonitor(this, 'Resource', { metadata, spec: { ...spec, ...AZURE_POD_MONITOR.limits } })
    } else new PodMonitor(this, 'Resource', { metadata, spec })
  }
}
