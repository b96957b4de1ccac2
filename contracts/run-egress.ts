import * as z from 'zod'
import { RunId } from './api.ts'
import { EgressAnomaly, EgressDenied, EgressSummary } from './egress.ts'
import { SandboxKind } from './names.ts'
import { EgressHost } from './policy.ts'

/** Refusals of the egress proxy that are alike, in all sandboxes of a run. */
export const DeniedEgress = z.object({
  ...EgressDenied.shape,
  firstAt: z.iso.datetime(),
  lastAt: z.iso.datetime(),
})
export type DeniedEgress = z.infer<typeof DeniedEgress>

/** Allows one run to reach a host of the operator's egress list that the settings of the run leave out. */
export const AllowEgress = z.strictObject({
  host: EgressHost.refine((host) => !host.startsWith('*.'), 'must be one host, without a wildcard'),
  /** For the audit record, and for the owner of the run. */
  reason: z
    .string()
    .max(1000)
    .refine((text) => text.trim() !== '', 'must not be empty'),
})
export type AllowEgress = z.infer<typeof AllowEgress>

/** A host that a person allowed to one run. */
export const AllowedEgress = z.object({
  host: EgressHost,
  reason: z.string(),
  /** Owner of the API key that allowed it. */
  by: z.string(),
  at: z.iso.datetime(),
})
export type AllowedEgress = z.infer<typeof AllowedEgress>

/** How a run used the network. */
export const RunEgress = z.object({
  runId: RunId,
  /** The class of the egress list that applies to the run. */
  kind: SandboxKind,
  /** The most frequent first. */
  denied: z.array(DeniedEgress),
  /** Hosts that people allowed to this run while it worked. */
  allowed: z.array(AllowedEgress),
  /** What the egress proxy noticed, oldest first. */
  anomalies: z.array(z.object({ ...EgressAnomaly.shape, at: z.iso.datetime() })),
  /** Connections and bytes of sandboxes that have ended. */
  hosts: z.array(EgressSummary.shape.hosts.element),
  /** False if the run has more reports than one answer takes into account. */
  isComplete: z.boolean(),
})
export type RunEgress = z.infer<typeof RunEgress>
