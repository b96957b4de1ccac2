import * as z from 'zod'
import { AZURE_IDENTITY_ENV, AZURE_KEYS, hasAzureIdentity } from './azure-identity-env.ts'
import { FoundryUrl } from './model-env.ts'
import { EGRESS_HEALTH_PORT, EGRESS_PROXY_PORT } from './ports.ts'

/** Projected token with which a replica of the egress proxy proves its identity to the API. No other service accepts it. */
export const EGRESS_CONTROL_TOKEN = {
  audience: 'agentweaver-control',
  mountPath: '/var/run/secrets/agentweaver/control',
  file: 'token',
  /** The shortest life that Kubernetes allows. The kubelet renews the token after 80 % of it. */
  lifetimeSeconds: 600,
} as const

/**
 * The same for the process that inserts credentials, which runs in a separate container. Only this container has the
 * token, so the process that all connections reach cannot ask for a credential.
 */
export const EGRESS_CREDENTIALS_TOKEN = {
  audience: 'agentweaver-credentials',
  mountPath: '/var/run/secrets/agentweaver/credentials',
  file: 'token',
  lifetimeSeconds: EGRESS_CONTROL_TOKEN.lifetimeSeconds,
} as const

/** The socket of this process, in a volume that both containers have. */
export const EGRESS_BROKER_SOCKET = { mountPath: '/run/agentweaver/credentials', name: 'socket' } as const

/**
 * Proxy of a company, `http://HOST:PORT`, through which the egress proxy reaches the hosts whose entries name no addresses. It
 * resolves their names. A password is not supported. The host must be in the form that URL parsers return: they read
 * `010.0.0.1` as 8.0.0.1, and `1.2.3` as 1.2.0.3.
 */
export const UpstreamProxyUrl = z
  .string()
  .regex(/^http:\/\/(?:[a-zA-Z0-9.-]+|\[[0-9a-fA-F:.]+\]):\d{1,5}\/?$/, 'must be http://HOST:PORT')
  .refine((url) => URL.canParse(url) && new URL(url).port !== '0', 'must be http://HOST:PORT')
  .refine(
    (url) => !URL.canParse(url) || url.startsWith(`http://${new URL(url).hostname}:`),
    'must have a host in its usual spelling, such as proxy.example.com, 10.0.0.1 or [2001:db8::1]',
  )
export const UPSTREAM_PROXY_KEY = 'AGENTWEAVER_EGRESS_UPSTREAM_PROXY'

const Port = (preset: number) => z.coerce.number().int().min(1).max(65_535).default(preset)

/** Environment of the egress proxy in a cluster. An unknown `AGENTWEAVER_EGRESS_*` key or a malformed value stops it. */
export const EgressProxyEnv = z
  .strictObject({
    /** The API's Service for replicas of the proxy, such as `http://agentweaver-egress-control.agentweaver.svc:8082`. */
    AGENTWEAVER_EGRESS_CONTROL_URL: z.url({ protocol: /^https?$/ }),
    /** The token of the replica's service account. The kubelet replaces the file. */
    AGENTWEAVER_EGRESS_CONTROL_TOKEN_FILE: z.string().startsWith('/'),
    AGENTWEAVER_EGRESS_PORT: Port(EGRESS_PROXY_PORT),
    AGENTWEAVER_EGRESS_HEALTH_PORT: Port(EGRESS_HEALTH_PORT),
    /** Socket of the process that inserts credentials. This process creates it; the other one passes connections to it. */
    AGENTWEAVER_EGRESS_BROKER_SOCKET: z.string().startsWith('/').max(107).optional(),
    [UPSTREAM_PROXY_KEY]: UpstreamProxyUrl.optional(),
    AGENTWEAVER_EGRESS_LOG_LEVEL: z.enum(['debug', 'info', 'warn', 'error']).default('info'),
    /** The vault of users' credentials. Only for the process that inserts credentials. */
    AGENTWEAVER_EGRESS_VAULT_URL: z.url({ protocol: /^https$/ }).optional(),
    /**
     * Only for the process that inserts credentials: the one Azure AI resource that gets tokens of the identity below, whatever
     * the state of the API says. The same value as `AGENTWEAVER_FOUNDRY_URL` of the API.
     */
    AGENTWEAVER_EGRESS_FOUNDRY_URL: FoundryUrl.optional(),
    ...AZURE_IDENTITY_ENV,
  })
  .refine((env) => env.AGENTWEAVER_EGRESS_VAULT_URL === undefined || hasAzureIdentity(env), {
    message: `needs ${AZURE_KEYS.join(', ')}`,
    path: ['AGENTWEAVER_EGRESS_VAULT_URL'],
  })
  .refine((env) => env.AGENTWEAVER_EGRESS_FOUNDRY_URL === undefined || hasAzureIdentity(env), {
    message: `needs ${AZURE_KEYS.join(', ')}`,
    path: ['AGENTWEAVER_EGRESS_FOUNDRY_URL'],
  })
export type EgressProxyEnv = z.infer<typeof EgressProxyEnv>
export const EGRESS_PROXY_ENV_PREFIX = 'AGENTWEAVER_EGRESS_'
