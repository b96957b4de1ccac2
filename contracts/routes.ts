/** AgentHost's routes. `{x}` is a parameter. */
export const AGENT_HOST_ROUTES = {
  healthz: '/healthz',
  identity: '/identity',
  configure: '/configure',
  workspace: '/workspace',
  manifest: '/workspace/manifest',
  pack: '/workspace/pack',
  clone: '/workspace/clone',
  changes: '/workspace/changes',
  openPush: '/workspace/push/open',
  sendPush: '/workspace/push',
  session: '/session',
  files: '/files',
  a2aBase: '/a2a/agent',
  events: '/events',
  decisions: '/decisions',
  commands: '/commands',
  egress: '/egress',
  freeze: '/freeze',
} as const

/** A2A binding: version segment below the base path, protocol version, and version header. */
export const A2A = { versionPath: 'v1', protocolVersion: '1.0', versionHeader: 'A2A-Version' } as const

/** Key in the metadata of an A2A request to send a message. `true` continues the turn that the restored session holds. */
export const RESUMES_METADATA = 'agentweaver/resumes'

/** The API's routes; `{id}` is the id of a run or a sandbox. */
export const API_ROUTES = {
  healthz: '/healthz',
  readyz: '/readyz',
  metrics: '/metrics',
  openapi: '/openapi.json',
  runs: '/api/runs',
  sandboxes: '/api/sandboxes',
  models: '/api/models',
  sandboxPolicy: '/api/sandbox-policy',
  trustedFolders: '/api/trusted-folders',
  restrictions: '/api/restrictions',
  audit: '/api/audit',
  diagnostics: '/api/diagnostics',
  data: '/api/data',
  keys: '/api/keys',
  me: '/api/me',
  userCredentials: '/api/me/credentials',
  signIn: '/api/sign-in',
} as const

/** The API's routes for replicas of the egress proxy, on a separate port. */
export const EGRESS_CONTROL_ROUTES = {
  control: '/internal/egress/control',
  events: '/internal/egress/events',
  /** Only for the process that inserts credentials. */
  credentials: '/internal/egress/credentials',
  /** Only for the process that inserts credentials: begins the check of a credential. */
  checks: '/internal/egress/checks',
  /** The result of a check. */
  verdicts: '/internal/egress/verdicts',
  /** A part of a run's budgets, for one request to its model. */
  reservations: '/internal/egress/reservations',
  /** A share of the bytes that a run may send and receive. */
  shares: '/internal/egress/shares',
} as const

/** Routes of the egress proxy on its port for health and metrics. */
export const EGRESS_PROXY_ROUTES = { healthz: '/healthz', readyz: '/readyz', metrics: '/metrics' } as const

export const IDEMPOTENCY_HEADER = 'idempotency-key'
export const LAST_EVENT_ID_HEADER = 'last-event-id'
/** JSON Lines: one JSON text per line. */
export const JSON_LINES_MEDIA_TYPE = 'application/x-ndjson'
export const TAR_MEDIA_TYPE = 'application/x-tar'
