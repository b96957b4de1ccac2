import * as z from 'zod'
import { KATA_NODE_LABEL, KATA_TAINT } from '../../contracts/labels.ts'

/** The fields of a node that the checks read. */
const Node = z.object({
  metadata: z.object({ name: z.string(), labels: z.record(z.string(), z.string()).default({}) }),
  spec: z.object({
    taints: z
      .array(z.object({ key: z.string(), value: z.string().optional(), effect: z.string() }))
      .default([]),
  }),
  status: z.object({
    allocatable: z.record(z.string(), z.string()).default({}),
    conditions: z.array(z.object({ type: z.string(), status: z.string() })).default([]),
    nodeInfo: z.object({ kernelVersion: z.string(), kubeletVersion: z.string() }),
    addresses: z.array(z.object({ type: z.string(), address: z.string() })).default([]),
  }),
})
export type Node = z.infer<typeof Node>
export const Nodes = z.object({ items: z.array(Node) })

export const Pod = z.object({
  metadata: z.object({ name: z.string(), uid: z.string() }),
  spec: z.object({ nodeName: z.string().optional(), runtimeClassName: z.string().optional() }),
  status: z.object({ podIP: z.string().optional() }).default({}),
})
export const Pods = z.object({ items: z.array(Pod) })
export const Service = z.object({ spec: z.object({ clusterIP: z.string() }) })

/** AKS sets this label to the pool's name. */
const POOL_LABEL = 'kubernetes.azure.com/agentpool'

export const poolOf = ({ metadata }: Node): string | undefined => metadata.labels[POOL_LABEL]
export const isReady = ({ status }: Node): boolean =>
  status.conditions.some(({ type, status: state }) => type === 'Ready' && state === 'True')
export const isKata = ({ metadata }: Node): boolean =>
  metadata.labels[KATA_NODE_LABEL.key] === KATA_NODE_LABEL.value
export const hasKataTaint = ({ spec }: Node): boolean =>
  spec.taints.some(
    ({ key, value, effect }) =>
      key === KATA_TAINT.key && value === KATA_TAINT.value && effect === KATA_TAINT.effect,
  )

const BINARY: Readonly<Record<string, number>> = { Ki: 1 / 1024, Mi: 1, Gi: 1024, Ti: 1_048_576 }

/** Converts a quantity of bytes to MiB: `28360Mi`, `29040640Ki`, `30408704000`. */
export function mibOf(quantity: string): number | undefined {
  const [, digits = '', unit = ''] = /^(\d+)(Ki|Mi|Gi|Ti)?$/.exec(quantity) ?? []
  if (digits === '') return undefined
  return Math.floor(unit === '' ? Number(digits) / 1_048_576 : Number(digits) * (BINARY[unit] ?? 0))
}

/** Converts a quantity of cpu to millicores: `7820m`, `8`. */
export function cpuMillisOf(quantity: string): number | undefined {
  const [, digits = '', unit = ''] = /^(\d+)(m)?$/.exec(quantity) ?? []
  if (digits === '') return undefined
  return unit === 'm' ? Number(digits) : Number(digits) * 1000
}
