import * as z from 'zod'
import { RunId } from './api.ts'
import { EgressDenied, EgressSummary } from './egress.ts'
import { SandboxKind } from './names.ts'

/** Refusals of the egress proxy that are alike, in all sandboxes of a run. */
export const DeniedEgress = z.object({
  ...EgressDenied.shape,
  firstAt: z.iso.datetime(),
  lastAt: z.iso.datetime(),
})
export type DeniedEgress = z.infer<typeof DeniedEgress>

/** How a run used the network. */
export const RunEgress = z.object({
  runId: RunId,
  /** The class of the egress list that applies to the run. */
  kind: SandboxKind,
  /** The most frequent first. */
  denied: z.array(DeniedEgress),
  /** Connections and bytes of sandboxes that have ended. */
  hosts: z.array(EgressSummary.shape.hosts.element),
  /** False if the run has more reports than one answer takes into account. */
  isComplete: z.boolean(),
})
export type RunEgress = z.infer<typeof RunEgress>
