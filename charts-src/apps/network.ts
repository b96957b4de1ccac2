import type { Chart } from 'cdk8s'
import type { EgressPolicy } from '../../policies/agent/egress/load.ts'
import { addObject } from '../constructs/plain-object.ts'
import type { Environment } from '../environment/schema.ts'
import { networkObjects } from '../network/network-objects.ts'

/**
 * Default deny in each namespace, plus the allowed connections. Names come from `policies/agent/egress.yaml`.
 */
export function addNetwork(chart: Chart, environment: Environment, egress: EgressPolicy): void {
  for (const object of networkObjects(environment, egress)) addObject(chart, object)
}
