import * as z from 'zod'
import { ModelUse, ReservationDecision, ReservationRequest, SettledShares } from './egress-budgets.ts'
import { CommitId } from './git-source.ts'
import { PushRule, RunPhase } from './policy.ts'

/** Port of the relay in a sandbox, on its loopback interface. */
export const EGRESS_RELAY_PORT = 3128

/** Below the private folder of a sandbox on this machine: the folder that commands see, and the proxy's socket in it. */
export const EGRESS_SOCKET = { folder: 'egress', name: 'socket' } as const

/** In the same folder: variables for commands with network access, which depend on the run. */
export const EGRESS_ENVIRONMENT_FILE = 'environment.json'

/** The content of this file. It has no secret. */
export const EgressEnvironment = z.strictObject({
  variables: z.record(z.string(), z.string()),
  /** Settings of git: key and value. */
  gitConfig: z.array(z.tuple([z.string(), z.string()])).max(512),
})
export type EgressEnvironment = z.infer<typeof EgressEnvironment>

/** File in that folder with the certificates that commands trust. Absent if the proxy terminates no TLS for them. */
export const EGRESS_TRUST_FILE = 'ca.crt'

/** Response header of the egress proxy with the sentence that explains a refusal. */
export const EGRESS_REASON_HEADER = 'agentweaver-egress'

/** How soon a client may try again after the egress proxy, or a relay in front of it, answered 503. */
export const EGRESS_RETRY_AFTER_SECONDS = 5

/** Header with the rule that refused a request of an agent to its model. The answer of a model server never has it. */
export const EGRESS_RULE_HEADER = 'agentweaver-egress-rule'

/** The process of a sandbox that connects: a command of the agent, or the process that holds the run's credential. */
export const EgressCaller = z.enum(['commands', 'agent-host'])
export type EgressCaller = z.infer<typeof EgressCaller>

/** Name of a credential in the operator's list. */
export const CredentialId = z
  .string()
  .regex(/^[a-z][a-z0-9-]{0,39}$/, 'must be of a-z, 0-9 and "-", and begin with a letter')

/** A certificate chain with an RSA key of 4096 bits has about 10,000 characters. */
export const MAX_CREDENTIAL_LENGTH = 16_384

/** The value of a credential. It must never be in a log, an event or an error. */
export const CredentialValue = z.string().min(1).max(MAX_CREDENTIAL_LENGTH)

/** How the proxy uses a credential that is not a token for a header. */
export const CredentialKind = z.literal('client-certificate')

/** What the commands of a sandbox hold instead of a credential. It has no value outside the sandbox. */
const EgressPlaceholder = z.strictObject({ credential: CredentialId, value: z.string().min(16).max(4096) })

/** Requests that an entry allows: one of the methods, on a path that one of the patterns matches. */
const EgressRequests = z.strictObject({
  methods: z.union([z.array(z.string()).min(1), z.literal('any')]),
  /** `*` stands for one segment, `**` at the end for all further segments. */
  paths: z.array(z.string().startsWith('/').max(512)).min(1).max(64),
})

/** Spellings of a request that the proxy refuses unless the entry names them. */
const EGRESS_SPELLINGS = ['encoded-slash', 'get-body', 'method-override'] as const

/** One destination that a run may connect to, with all defaults filled in. */
export const EgressDestination = z.strictObject({
  /** An exact name, or `*.` and a name, which matches one more label. */
  host: z.string().max(255),
  ports: z.array(z.int().min(1).max(65_535)).min(1).max(8),
  /** Methods of requests that the proxy can read. */
  methods: z.union([z.array(z.string()).min(1), z.literal('any')]),
  phases: z.array(RunPhase).min(1),
  caller: z.enum(['any', 'agent-host']),
  /** Allows HTTP without TLS. */
  http: z.literal('allow').optional(),
  /** Address ranges of a private endpoint. The host may have no other addresses. */
  addresses: z.array(z.string()).min(1).max(16).optional(),
  /** Requests that the proxy allows if it can read them. One of the elements must match. Without it, every path. */
  requests: z.array(EgressRequests).min(1).max(32).optional(),
  /**
   * Bytes that a sandbox may send to all hosts of the entry together, including TLS and the headers of requests. `entry`: the host
   * of the entry, which the settings of a run may have narrowed to several.
   */
  maxSent: z.strictObject({ bytes: z.int().positive(), entry: z.string().max(255) }).optional(),
  /** Digest of the authority with which the proxy terminates TLS. Without it, the proxy passes TLS on unread. */
  authority: z.string().min(1).max(64).optional(),
  /** Allows an upgrade to the WebSocket protocol. */
  upgrade: z.literal('websocket').optional(),
  allow: z.array(z.enum(EGRESS_SPELLINGS)).min(1).optional(),
  /** The credential that the proxy inserts into requests in place of its placeholder. */
  credential: CredentialId.optional(),
  /**
   * The proxy adds the credential to every request: as the password of this user, or as a bearer token. Without it, the proxy
   * only replaces the placeholder.
   */
  attach: z.strictObject({ user: z.string().max(128).optional() }).optional(),
  /** The proxy presents the credential as its client certificate. Requests carry no credential then. */
  credentialKind: CredentialKind.optional(),
})
export type EgressDestination = z.infer<typeof EgressDestination>

/** Path of the proxy below which an agent finds the API of its model. */
export const MODEL_BASE_PATH = '/model/v1'

/** Id of the operator's key for the model server. The credentials file cannot list it. */
export const MODEL_CREDENTIAL = 'model-key'

/**
 * Id of a credential that no list and no vault has: a token of the proxy's own Azure identity. Only the model route uses it,
 * towards the one Azure AI resource that the proxy's environment names.
 */
export const PROXY_IDENTITY = 'azure-identity'

/**
 * Where the operator's list has no credential with this id, it stands for the one that each owner must set. An entry of the
 * egress list can name the first three. `own-git` is not `git`, which is a common id in operators' lists: their ids cannot begin
 * with `own-`.
 */
export const OF_EACH_OWNER = {
  github: 'github',
  git: 'own-git',
  registry: 'registry',
  model: 'openai-compatible',
} as const

/** How an agent reaches its model: with requests to the proxy, which sends them on to one server. */
export const ModelRoute = z.strictObject({
  /** Base URL of the server. A URL with `http` may only lead to this machine, or into a private network. */
  upstream: z.url({ protocol: /^https?$/ }).max(2048),
  /** The credential that the proxy inserts. Absent if the server needs none. */
  credential: CredentialId.optional(),
  /** The header that carries it. */
  header: z.enum(['authorization', 'api-key']),
  models: z.array(z.string().min(1).max(256)).min(1).max(16),
  /** What the server may do by itself, such as `web_search`. @default nothing */
  serverTools: z.array(z.string().min(1).max(64)).max(32).optional(),
  /** The server may have only these addresses, which may be private. */
  addresses: z.array(z.string()).min(1).max(16).optional(),
  /** Private addresses, and those of this machine, are allowed too. Only on a laptop. */
  isPrivateAllowed: z.literal(true).optional(),
  /** The run has a budget of tokens or of requests, so the proxy reserves what each request may use. */
  isMetered: z.literal(true).optional(),
  /** The run is frozen, so it sends no request. */
  isFrozen: z.literal(true).optional(),
  /** On a laptop: where the process that inserts credentials serves requests of this agent. */
  brokerPath: z.string().startsWith('/').max(107).optional(),
})
export type ModelRoute = z.infer<typeof ModelRoute>

/** The pod of a sandbox. With two families of addresses, a connection may come from either. */
export const EgressPod = z.strictObject({
  uid: z.string().min(1).max(64),
  addresses: z.array(z.string().max(45)).min(1).max(2),
})
export type EgressPod = z.infer<typeof EgressPod>

/** `HOST:PORT/PATH` without `.git`. */
const GitRepository = z.string().max(600)
/** As git and the list of a push spell it. */
const BranchRef = z.string().startsWith('refs/heads/agentweaver/').max(255)

/** A branch was created or updated with a credential of the run. */
export const EgressPushed = z.strictObject({ repository: GitRepository, ref: BranchRef, commit: CommitId })
export type EgressPushed = z.infer<typeof EgressPushed>

/** Which refs the commands of a sandbox may update. */
export const EgressPush = z.strictObject({
  rule: PushRule,
  /** A person pushes one commit to one branch. Then the sandbox may push nothing else, also with another rule. */
  grant: z.strictObject({ ref: BranchRef, commit: CommitId }).optional(),
  /** The last commits that the run has pushed. It continues only these branches. */
  pushed: z.array(EgressPushed).max(100),
})
export type EgressPush = z.infer<typeof EgressPush>

/** What one sandbox of a run may reach. */
export const EgressGeneration = z.strictObject({
  runId: z.string().min(1).max(128),
  generation: z.int().nonnegative(),
  phase: RunPhase,
  /** `read-only`: requests that only read, and no tunnels. `no-network`: nothing. @default normal */
  restriction: z.enum(['normal', 'read-only', 'no-network']).optional(),
  /** On a laptop: where its commands reach the proxy. */
  socketPath: z.string().startsWith('/').max(107).optional(),
  /** In a cluster: the pod whose tokens and addresses the proxy accepts. */
  pod: EgressPod.optional(),
  destinations: z.array(EgressDestination).max(512),
  /** Hosts of the operator's list that the settings of the run leave out, to explain a refusal. @default none */
  withheld: z.array(z.string().max(255)).max(512).optional(),
  /** What the run may still send and receive. Counts from the first state that lists the sandbox. */
  bytesLeft: z.int().nonnegative().optional(),
  /** Socket of the process that inserts credentials. Connections for destinations with a credential are passed to it. */
  brokerPath: z.string().startsWith('/').max(107).optional(),
  placeholders: z.array(EgressPlaceholder).max(64).optional(),
  /** @default a person pushes, and no branch is continued */
  push: EgressPush.optional(),
  /** Absent if the agent does not reach its model through the proxy. */
  modelRoute: ModelRoute.optional(),
  /** On a laptop, for the process that inserts credentials: its socket for AgentHost. */
  agentHostSocketPath: z.string().startsWith('/').max(107).optional(),
})
export type EgressGeneration = z.infer<typeof EgressGeneration>

/** An intermediate authority, with which the proxy issues certificates for the hosts that it terminates. */
const EgressAuthority = z.strictObject({
  /** SHA-256 of the certificate, in hexadecimal digits. A renewed authority has another one. */
  digest: z.string().min(1).max(64),
  /** PEM. */
  certificate: z.string().max(262_144),
  /** Private key, PKCS #8 in PEM. It must never be in a log, an event or an error. */
  key: z.string().max(4096),
})

/** A public key that verifies tokens of sandboxes. */
export const EgressKey = z.object({
  kty: z.literal('OKP'),
  crv: z.literal('Ed25519'),
  x: z.string().max(64),
  kid: z.string().max(128),
  alg: z.literal('EdDSA'),
  use: z.literal('sig'),
})

const MAX_GENERATIONS = 4096

/** All that the proxy allows. A sandbox that is not listed reaches nothing. */
export const EgressState = z.strictObject({
  revision: z.int().nonnegative(),
  generations: z.array(EgressGeneration).max(MAX_GENERATIONS),
  /** At most one for each generation. */
  authorities: z.array(EgressAuthority).max(MAX_GENERATIONS).optional(),
  /** On a laptop: the port of loopback for callers with a token, which these keys verify. 0 picks a free one. */
  listen: z
    .strictObject({ port: z.int().min(0).max(65_535), keys: z.array(EgressKey).min(1).max(8) })
    .optional(),
})
export type EgressState = z.infer<typeof EgressState>

/** The rule that refused a connection. */
export const EgressRule = z.enum([
  'address',
  'budget',
  'certificate',
  'client-hello',
  'credential',
  'credential-echoed',
  'encrypted-client-hello',
  'identity',
  'malformed-request',
  'method',
  'model',
  'name-mismatch',
  'no-server-name',
  'not-listed',
  'path',
  'phase',
  'plain-http',
  'port',
  'proxy-unavailable',
  'push',
  'request',
  'restricted',
  'run-ended',
  'too-many-connections',
])
export type EgressRule = z.infer<typeof EgressRule>

const Count = z.int().nonnegative()

/** A refused connection or request. Repeats of the same refusal are counted. */
export const EgressDenied = z.strictObject({
  host: z.string().max(300),
  port: z.int().min(0).max(65_535),
  method: z.string().max(32).optional(),
  /** Without its query. */
  path: z.string().max(200).optional(),
  rule: EgressRule,
  reason: z.string().max(1000),
  remedy: z.string().max(1000),
  /** Refusals since the last event of this kind. */
  count: z.int().positive(),
})
export type EgressDenied = z.infer<typeof EgressDenied>

/** The traffic of one sandbox of a run, per host. */
export const EgressSummary = z.strictObject({
  hosts: z
    .array(
      z.strictObject({
        host: z.string().max(300),
        port: z.int().min(0).max(65_535),
        phase: RunPhase,
        connections: Count,
        sentBytes: Count,
        receivedBytes: Count,
        denied: Count,
      }),
    )
    .max(64),
  /** Hosts that are not listed, because there are too many. */
  omitted: Count,
})
export type EgressSummary = z.infer<typeof EgressSummary>

/** A credential was inserted into requests to a host. Repeats are counted. */
export const CredentialUsed = z.strictObject({
  credentialId: CredentialId,
  host: z.string().max(300),
  /** Requests since the last event of this kind. */
  count: z.int().positive(),
})
export type CredentialUsed = z.infer<typeof CredentialUsed>

/** Traffic of the commands that a person may want to look at. Nothing was refused. */
export const EgressAnomaly = z.strictObject({
  /** `polling`: connections at regular intervals. `names`: many names of hosts that look random. */
  kind: z.enum(['polling', 'names']),
  /** For names, `*.` and the domain. */
  host: z.string().max(300),
  port: z.int().min(0).max(65_535),
  /** Connections, or names. */
  count: z.int().positive(),
  everySeconds: z.int().positive().optional(),
  reason: z.string().max(1000),
})
export type EgressAnomaly = z.infer<typeof EgressAnomaly>

/** A limit of the egress proxy is used by 50, 80 or 100 percent. */
export const EgressBudget = z.strictObject({
  /** `bytes`: sent and received by the run. `requests`, `sent_bytes`: sent by a sandbox to one host. */
  kind: z.enum(['bytes', 'requests', 'sent_bytes']),
  /** Not for `bytes`. */
  host: z.string().max(300).optional(),
  used: Count,
  limit: z.int().positive(),
})
export type EgressBudget = z.infer<typeof EgressBudget>

const Of = { runId: z.string(), generation: z.int().nonnegative() }

/** Reports that the event stream of a run gets. */
export const EgressRunReport = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('denied'), ...Of, data: EgressDenied }),
  z.strictObject({ type: z.literal('summary'), ...Of, data: EgressSummary }),
  z.strictObject({ type: z.literal('credential-used'), ...Of, data: CredentialUsed }),
  z.strictObject({ type: z.literal('anomaly'), ...Of, data: EgressAnomaly }),
  z.strictObject({ type: z.literal('budget'), ...Of, data: EgressBudget }),
  z.strictObject({ type: z.literal('model-use'), ...Of, data: ModelUse }),
  z.strictObject({ type: z.literal('shares-settled'), ...Of, data: SettledShares }),
  z.strictObject({ type: z.literal('pushed'), ...Of, data: EgressPushed }),
])
export type EgressRunReport = z.infer<typeof EgressRunReport>

/** What the proxy reports. Reports about a sandbox precede the `applied` of the state that no longer lists it. */
export const EgressReport = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('applied'),
    revision: z.int().nonnegative(),
    /** The port of `listen`. */
    port: z.int().min(1).max(65_535).optional(),
  }),
  /** Sent and received since the last report of the sandbox. */
  z.strictObject({ type: z.literal('usage'), ...Of, bytes: z.int().positive() }),
  ...EgressRunReport.options,
  /** Only of the process that inserts credentials: a request for a value. */
  z.strictObject({
    type: z.literal('credential-wanted'),
    ...Of,
    id: z.int().nonnegative(),
    credential: CredentialId,
  }),
  /** On a laptop: a request for a part of the run's budgets. */
  z.strictObject({
    type: z.literal('reservation-wanted'),
    id: z.int().nonnegative(),
    request: ReservationRequest,
  }),
])
export type EgressReport = z.infer<typeof EgressReport>

/** The answer to `credential-wanted`. It must never be in a log, an event or an error. */
export const CredentialAnswer = z.strictObject({
  type: z.literal('credential'),
  id: z.int().nonnegative(),
  answer: z.union([z.strictObject({ value: CredentialValue }), z.strictObject({ fault: z.string() })]),
})
export type CredentialAnswer = z.infer<typeof CredentialAnswer>

/** The answer to `reservation-wanted`. Without a decision, the service could not decide. */
export const ReservationAnswer = z.strictObject({
  type: z.literal('reservation'),
  id: z.int().nonnegative(),
  decision: ReservationDecision.optional(),
})
export type ReservationAnswer = z.infer<typeof ReservationAnswer>
