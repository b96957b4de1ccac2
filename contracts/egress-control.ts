import * as z from 'zod'
import { CredentialCheckPlan, CredentialVerdict } from './credential-check.ts'
import {
  CredentialId,
  CredentialValue,
  EgressCaller,
  EgressDestination,
  EgressEnvironment,
  EgressGeneration,
  EgressKey,
  EgressPod,
  EgressRunReport,
  EgressState,
} from './egress.ts'
import { UserSecret } from './secrets.ts'

/** The token with which a process of a sandbox identifies itself to the egress proxy. A JWT, signed with the ticket key. */
export const EGRESS_TOKEN = {
  audience: 'agentweaver-egress',
  algorithm: 'EdDSA',
  lifetimeSeconds: 900,
  /** The clocks of two nodes may differ. */
  leewaySeconds: 60,
} as const

/** `sub` is the run. The token names no destination: the newest state decides. */
export const EgressTokenClaims = z.object({
  sub: z.string().min(1).max(128),
  iat: z.int(),
  exp: z.int(),
  generation: z.int().nonnegative(),
  caller: EgressCaller,
  pod: EgressPod,
})
export type EgressTokenClaims = z.infer<typeof EgressTokenClaims>

/** Longer than any token that the API signs. */
export const EgressToken = z
  .string()
  .max(4096)
  .regex(/^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/, 'must be a JWT')

/** What the runner needs so that commands reach the proxy. */
export const EgressAccess = z.strictObject({
  /** The token of commands. The relay has it, and no command sees it. */
  commandsToken: EgressToken,
  /** Certificates in PEM that commands trust. Absent if the proxy terminates no TLS of this sandbox. */
  caBundle: z.string().max(900_000).optional(),
  /** Variables and settings of git for commands. They have placeholders instead of credentials. */
  environment: EgressEnvironment.optional(),
})
export type EgressAccess = z.infer<typeof EgressAccess>

/** Body of `PUT /egress` of AgentHost. */
export const EgressGrant = EgressAccess.partial({ commandsToken: true }).extend({
  /** The token of AgentHost, with which the agent reaches its model. The runner does not get it. */
  agentHostToken: EgressToken.optional(),
})
export type EgressGrant = z.infer<typeof EgressGrant>

export const EGRESS_LEASE = {
  /** Each message of the control stream is a lease. A proxy without one opens no connection. */
  ms: 60_000,
  /** How long connections survive the end of the lease. */
  graceMs: 60_000,
  /** How often the API repeats its message if nothing changes. */
  renewMs: 10_000,
} as const

const Digest = z.string().regex(/^[0-9a-f]{64}$/)

/** One line of the control stream: a whole state. */
export const EgressControlMessage = EgressState.omit({ generations: true, listen: true }).extend({
  /** A generation names its destinations by their digest. */
  generations: z
    .array(
      EgressGeneration.omit({ destinations: true, socketPath: true, agentHostSocketPath: true }).extend({
        policy: Digest,
      }),
    )
    .max(4096),
  /** Destinations that this stream has not sent yet, by digest. */
  policies: z.record(Digest, z.array(EgressDestination).max(512)),
  keys: z.array(EgressKey).min(1).max(8),
  /**
   * Only for the process that inserts credentials: checks of credentials that no replica has begun. Absent if there are none: a
   * replica of an earlier release accepts no message with this member.
   */
  checks: z.array(z.guid()).min(1).max(64).optional(),
})
export type EgressControlMessage = z.infer<typeof EgressControlMessage>

/** Longer than any message that the API sends. */
export const MAX_CONTROL_MESSAGE_BYTES = 33_554_432

/** Body of `POST /internal/egress/events`. */
export const EgressReportBatch = z.strictObject({
  /** Identifies one process of the proxy. */
  proxy: z.guid(),
  /** Number of the first report. Numbers start at 1. A batch is sent again until it is accepted, so the API drops repeats. */
  first: z.int().positive(),
  reports: z.array(EgressRunReport).min(1).max(256),
})
export type EgressReportBatch = z.infer<typeof EgressReportBatch>

/** Body of `POST /internal/egress/credentials`. */
export const EgressCredentialRequest = z.strictObject({
  runId: z.string().min(1).max(128),
  generation: z.int().nonnegative(),
  credential: CredentialId,
})
export type EgressCredentialRequest = z.infer<typeof EgressCredentialRequest>

/** The answer. It must never be in a log, an event or an error. */
export const EgressCredentialAnswer = z.union([
  z.strictObject({ value: CredentialValue }),
  /** The value is in the vault of users' credentials. The process that inserts credentials reads it there. */
  z.strictObject({ secret: UserSecret }),
])
export type EgressCredentialAnswer = z.infer<typeof EgressCredentialAnswer>

/** Body of `POST /internal/egress/checks`. */
export const EgressCheckRequest = z.strictObject({ id: z.guid() })
export type EgressCheckRequest = z.infer<typeof EgressCheckRequest>

/** The answer, to one replica only. It must never be in a log, an event or an error. */
export const EgressCheckAnswer = z.strictObject({
  plan: CredentialCheckPlan,
  credential: EgressCredentialAnswer,
})
export type EgressCheckAnswer = z.infer<typeof EgressCheckAnswer>

/** Body of `POST /internal/egress/verdicts`. */
export const EgressCheckVerdict = z.strictObject({ id: z.guid(), verdict: CredentialVerdict })
export type EgressCheckVerdict = z.infer<typeof EgressCheckVerdict>
