import type { PlannedValue } from '../../contracts/planned-resource.ts'
import { asList, typeOf, valueAt } from './read.ts'
import type { RuledResource } from './rule.ts'
import { POOL } from './types.ts'

/** A node pool: a separate resource, or an inline pool of a cluster. */
export interface PoolPlace {
  /** Prefix of the pool's property paths: empty, or `agentPoolProfiles[0].`. */
  readonly at: string
  readonly inputs: PlannedValue
}

export function poolsOf(resource: RuledResource): readonly PoolPlace[] {
  if (typeOf(resource) === POOL) return [{ at: '', inputs: resource.inputs }]
  const inline = asList(resource.inputs['agentPoolProfiles'])
  return inline.map((inputs, index) => ({ at: `agentPoolProfiles[${index}].`, inputs }))
}

/** Whether the pool's `workloadRuntime` is Kata, under any of Azure's names for it. */
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
