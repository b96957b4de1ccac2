import * as z from 'zod'
import {
  CredentialUsed,
  EgressAnomaly,
  EgressBudget,
  EgressDenied,
  EgressPushed,
  EgressSummary,
} from './egress.ts'

/** The events about the network of a run. */
export const EGRESS_EVENTS = [
  /** The egress proxy refused a connection of a command. */
  z.strictObject({ type: z.literal('egress.denied'), data: EgressDenied }),
  /** A person allowed a host that the settings of the run leave out. */
  z.strictObject({
    type: z.literal('egress.allowed'),
    data: z.strictObject({ host: z.string().max(255), by: z.string(), reason: z.string() }),
  }),
  /** The egress proxy inserted a credential into a request of a command. */
  z.strictObject({ type: z.literal('egress.credential_used'), data: CredentialUsed }),
  z.strictObject({ type: z.literal('egress.pushed'), data: EgressPushed }),
  /** The egress proxy noticed something unusual in the connections of commands, and refused nothing. */
  z.strictObject({ type: z.literal('egress.anomaly'), data: EgressAnomaly }),
  /** A limit of the egress proxy is used by 50, 80 or 100 percent. At 100 percent, it refuses what exceeds the limit. */
  z.strictObject({ type: z.literal('egress.budget'), data: EgressBudget }),
  /** The traffic of a sandbox, when it ends. */
  z.strictObject({ type: z.literal('egress.summary'), data: EgressSummary }),
] as const
