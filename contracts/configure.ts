import * as z from 'zod'
import { AgentConfig } from './agents.ts'
import { GovernancePolicy } from './policy.ts'
import { UserSecretName } from './secrets.ts'
import { WorkspaceLayout } from './workspace-layout.ts'

const Id = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/)
const Key = z.string().regex(/^[A-Za-z0-9_-]{43}$/, 'must be 32 bytes in base64url')

export const Credential = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('keyVault'), secretName: UserSecretName }),
  z.strictObject({ kind: z.literal('token'), token: z.string().min(1).max(16_384) }),
  z.strictObject({ kind: z.literal('none') }),
])
export type Credential = z.infer<typeof Credential>

/** Body of `POST /configure`: everything specific to one run. The environment holds nothing per run. */
export const ConfigureRequest = z.strictObject({
  runId: Id,
  generation: z.int().positive(),
  userId: z.string().min(1).max(256),
  turnBearerToken: Key,
  /**
   * HMAC key for digests of requests that are redacted before they are announced. The same in every sandbox of a run, so
   * that an approval stays bound to its request when the run continues in another sandbox.
   */
  digestKey: Key,
  credential: Credential,
  agent: AgentConfig,
  governance: GovernancePolicy,
  /** Absolute path of the workspace: the mount in a pod, the run's folder on a laptop. */
  workingDirectory: z
    .string()
    .regex(/^\/[^\0]*$/)
    .max(4096),
  /** Mounts over a workspace that is a folder of this machine. Absent in a pod. */
  layout: WorkspaceLayout.optional(),
  /** Announces a saved session; the setup waits until `PUT /session` has sent it. */
  session: z
    .strictObject({ sha256: z.string().regex(/^[0-9a-f]{64}$/), bytes: z.int().positive() })
    .optional(),
})
export type ConfigureRequest = z.infer<typeof ConfigureRequest>
export type ConfigureRequestInput = z.input<typeof ConfigureRequest>

export const ConfigureReply = z.strictObject({ configured: z.literal(true), runId: z.string() })

/** `failed`: configuration failed, but the process still serves requests. `leaving`: shutting down, so its errors explain nothing. */
export const HostState = z.enum(['starting', 'standby', 'configuring', 'ready', 'failed', 'leaving'])
export type HostState = z.infer<typeof HostState>

/** Body of the 409 to a second `/configure`. The API uses it to tell a lost reply from another caller's request. */
export const AlreadyConfigured = z.object({
  state: HostState,
  runId: z.string().optional(),
  generation: z.int().optional(),
})

/** The ticket is a JWT (EdDSA): `aud` is the sandbox instance, `sub` the run, `body_sha256` the digest of the raw body. */
export const TICKET = { algorithm: 'EdDSA', lifetimeSeconds: 60, leewaySeconds: 60 } as const

export const TicketClaims = z.object({
  aud: z.string(),
  sub: z.string(),
  iat: z.int(),
  exp: z.int(),
  body_sha256: z.string().regex(/^[0-9a-f]{64}$/),
})

/** Audience of the token that `GET /identity` returns. */
export const IDENTITY_AUDIENCE = 'agentweaver-api'

/** Body of `GET /identity`: the pod's projected service account token, as the kubelet wrote it. */
export const IdentityReply = z.object({ token: z.string().min(1).max(8192) })
export type IdentityReply = z.infer<typeof IdentityReply>
