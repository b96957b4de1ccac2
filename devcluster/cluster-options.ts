import type { ModuleName } from './build/modules.ts'
import { HarnessError } from './harness-error.ts'

export const IDENTITY_TIMINGS = ['instant', 'default'] as const
/** How soon Cilium acts on a changed pod label: at once, or after up to 35 seconds as on AKS. */
export type IdentityTiming = (typeof IDENTITY_TIMINGS)[number]

export interface ClusterOptions {
  /** Number of real nodes. 0 starts only a control plane, which needs no root privileges. */
  readonly nodes: number
  readonly gvisor: boolean
  readonly cilium: IdentityTiming | false
  /** Fake nodes whose pods become ready without running. */
  readonly kwokNodes: number
}

const MAX_NODES = 4
const MAX_KWOK_NODES = 500

/** Completes the options: a runtime or a network engine needs a real node, so it adds one. */
export function completeOptions(given: Partial<ClusterOptions>): ClusterOptions {
  const { gvisor = false, cilium = false, kwokNodes = 0 } = given
  const nodes = Math.max(given.nodes ?? 0, gvisor || cilium ? 1 : 0)
  requireInteger('--nodes', nodes, MAX_NODES)
  requireInteger('--kwok', kwokNodes, MAX_KWOK_NODES)
  return { nodes, gvisor, cilium, kwokNodes }
}

function requireInteger(flag: string, value: number, max: number): void {
  if (!Number.isInteger(value) || value < 0 || value > max) {
    throw new HarnessError(`${flag} takes a whole number from 0 to ${max}`)
  }
}

export function modulesFor({ nodes, gvisor, cilium }: ClusterOptions): ModuleName[] {
  return [
    'kubernetes',
    ...(nodes > 0 ? (['node', 'coredns'] as const) : []),
    ...(gvisor ? (['gvisor'] as const) : []),
    ...(cilium ? (['cilium'] as const) : []),
  ]
}
