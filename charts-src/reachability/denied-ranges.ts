import * as z from 'zod'
import type { KubeObject } from '../kube-object.ts'
import { createSelector, LabelSelector, requirementsOf, selects } from './selector.ts'

const Denying = z.object({
  spec: z.object({
    endpointSelector: LabelSelector,
    egressDeny: z
      .array(
        z.object({
          toCIDRSet: z
            .array(z.object({ cidr: z.string(), except: z.array(z.string()).optional() }))
            .default([]),
          toPorts: z.array(z.unknown()).optional(),
        }),
      )
      .default([]),
  }),
})

/** Ranges that Cilium's policies deny whole, at every port, to pods with these labels: as the rules spell them. */
export function rangesDeniedTo(
  objects: readonly KubeObject[],
  labels: Readonly<Record<string, string>>,
): ReadonlySet<string> {
  const sourced = new Map(Object.entries(labels).map(([key, value]) => [`k8s:${key}`, value]))
  const policies = objects
    .filter(({ kind }) => kind === 'CiliumNetworkPolicy')
    .flatMap((object) => Denying.safeParse(object).data?.spec ?? [])
    .filter(({ endpointSelector }) =>
      selects(createSelector(requirementsOf(endpointSelector, 'any')), sourced),
    )
  const whole = policies
    .flatMap(({ egressDeny }) => egressDeny.filter(({ toPorts }) => toPorts === undefined))
    .flatMap(({ toCIDRSet }) => toCIDRSet.filter(({ except = [] }) => except.length === 0))
  return new Set(whole.map(({ cidr }) => cidr))
}
