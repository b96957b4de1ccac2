import type { PlannedValue } from '../../contracts/planned-resource.ts'
import { asList, typeOf, valueAt } from './read.ts'
import type { RuledResource } from './rule.ts'
import { POOL } from './types.ts'

/** Where a pool of nodes stands: it is a resource, or one of the pools that a cluster is made with. */
export interface PoolPlace {
  /** Before the names of its fields: nothing, or `agentPoolProfiles[0].`. */
  readonly at: string
  readonly inputs: PlannedValue
}

export function poolsOf(resource: RuledResource): readonly PoolPlace[] {
  if (typeOf(resource) === POOL) return [{ at: '', inputs: resource.inputs }]
  const inline = asList(resource.inputs['agentPoolProfiles'])
  return inline.map((inputs, index) => ({ at: `agentPoolProfiles[${index}].`, inputs }))
}

/** Whether a pool says of itself that sandboxes run on it in machines of their own, under any name of that. */
export function isKata({ inputs }: PoolPlace): boolean {
  const runtime = valueAt(inputs, 'workloadRuntime')
  return typeof runtime === 'string' && /^Kata/i.test(runtime)
}

/** `Standard_D8ds_v5`: its series, vCPUs and features. */
export function readSize(size: PlannedValue | undefined) {
  const [, series = '', vcpus = '0', features = ''] =
    typeof size === 'string' ? (/^Standard_([A-Z]+)(\d+)(?:-\d+)?([a-z]*)(?:_|$)/.exec(size) ?? []) : []
  return { series, vcpus: Number(vcpus), features }
}
