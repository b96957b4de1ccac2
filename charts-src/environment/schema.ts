import * as z from 'zod'
import {
  CredentialFields,
  GitHubAppPlace,
  hasIdTwice,
  KIND_FITS,
  kindFits,
} from '../../contracts/credentials.ts'
import { UpstreamProxyUrl } from '../../contracts/egress-proxy-env.ts'
import { Slice } from '../../contracts/names.ts'
import { InfraOutputs } from '../../contracts/outputs.ts'
import { SandboxSettingsPatch } from '../../contracts/policy.ts'
import { Range } from '../../policies/agent/egress/fields.ts'
import { patternProblems } from '../../policies/agent/settings.ts'
import { parseRange } from '../../reachability/address.ts'
import { Models } from './models.ts'
import { isServerUrl } from './server-url.ts'
import { SignIn } from './sign-in.ts'
import { Traces } from './traces.ts'

/** An image pinned by digest. A tag is rejected, because the digest would override it silently. */
const ImageRef = z
  .string()
  .regex(
    /^(?:[a-z0-9-]+\.)*[a-z0-9-]+(?::\d+)?(?:\/[a-z0-9]+(?:[._-][a-z0-9]+)*)+@sha256:[0-9a-f]{64}$/,
    'must be <registry>/<name>@sha256:<64 hex digits>, without a tag',
  )

const Mib = z.int().min(16).max(1_048_576)
/** Millicores. The kernel cannot enforce less than 10. */
const CpuMillis = z.int().min(10).max(256_000)

/**
 * Resources of one container. Memory request and limit are equal: in a VM the limit is the size of the VM.
 */
const ContainerSize = z.strictObject({
  /** The CPU request. */
  cpuMillis: CpuMillis,
  /** The CPU limit. */
  maxCpuMillis: CpuMillis,
  memoryMib: Mib,
  /** Writable files outside volumes, plus logs. */
  ephemeralMib: Mib,
})
export type ContainerSize = z.infer<typeof ContainerSize>

const Warm = z.discriminatedUnion('owner', [
  z.strictObject({ owner: z.literal('tree'), replicas: z.int().min(0).max(500) }),
  /** The tree omits `replicas` because an autoscaler sets it. The quota must cover `max`. */
  z.strictObject({ owner: z.literal('autoscaler'), max: z.int().min(1).max(500) }),
])

const PoolSize = z.strictObject({
  warm: Warm,
  agentHost: ContainerSize,
  toolbox: ContainerSize,
  volumes: z.strictObject({
    workspaceMib: Mib,
    /** Size of `/tmp` and of the home folder in each container. */
    tmpMib: Mib,
    homeMib: Mib,
  }),
})
export type PoolSize = z.infer<typeof PoolSize>

const Total = z.int().min(1).max(1_000_000_000)
const Quota = z.strictObject({
  pods: z.int().min(1),
  cpuMillis: Total,
  maxCpuMillis: Total,
  memoryMib: Total,
  ephemeralMib: Total,
})

const Sizes = z.strictObject({
  sandboxes: z.strictObject({
    agent: PoolSize,
    command: PoolSize,
    /** Overhead of the isolation per pod. Quotas and the scheduler count it. */
    overhead: z.strictObject({ cpuMillis: z.int().min(0).max(4000), memoryMib: z.int().min(0).max(8192) }),
    /** `emptyDir` uses the node's ephemeral storage. `volume` creates a volume claim per sandbox. */
    workspace: z.enum(['emptyDir', 'volume']),
    quota: Quota.extend({ claims: z.int().min(1) }),
  }),
  controlPlane: z.strictObject({ quota: Quota }),
  api: z.strictObject({
    replicas: z.int().min(1).max(50),
    maxReplicas: z.int().min(1).max(50),
    cpuTargetPercent: z.int().min(20).max(90),
    container: ContainerSize,
    /** Limits of each replica. @default the limits of a service on a laptop */
    requestsPerMinute: z.int().min(1).max(1_000_000).optional(),
    maxStreams: z.int().min(1).max(100_000).optional(),
    maxStreamsPerOwner: z.int().min(1).max(100_000).optional(),
    /** @default `info` */
    logLevel: z.enum(['debug', 'info', 'warn', 'error']).optional(),
  }),
  /** The egress proxy (mode `proxy`). The quota of its namespace is computed from these sizes. */
  egressProxy: z
    .strictObject({
      replicas: z.int().min(2).max(50),
      maxReplicas: z.int().min(2).max(50),
      cpuTargetPercent: z.int().min(20).max(90),
      container: ContainerSize,
      /** The container that inserts credentials. Needed with `egress.credentials`, and on Azure for the credentials of owners. */
      credentials: ContainerSize.optional(),
    })
    .optional(),
  runs: z.strictObject({
    maxRuns: z.int().min(1),
    maxRunsPerOwner: z.int().min(1),
    /** Sandboxes that one replica starts at the same time. */
    maxLaunches: z.int().min(1),
    /** Runs that wait for a place. A run that waits longer for its first sandbox fails. */
    maxQueued: z.int().min(1),
    maxQueuedPerOwner: z.int().min(1),
    queueSeconds: z.int().min(60),
    /** How often a turn is saved while it works. */
    checkpointSeconds: z.int().min(10),
    /** Checkpoints, uploads and results of one owner in the database. */
    storedGibPerOwner: z.int().min(1),
    /** The maximum life of a claim. Admission rejects longer ones. */
    maxHours: z.int().min(1).max(168),
    idleSeconds: z.int().min(60),
    approvalSeconds: z.int().min(60),
  }),
})

const Ed25519Key = z.strictObject(
  {
    kty: z.literal('OKP'),
    crv: z.literal('Ed25519'),
    alg: z.literal('EdDSA'),
    use: z.literal('sig'),
    kid: z.string().min(1).max(128),
    x: z.string().regex(/^[A-Za-z0-9_-]{43}$/, 'must be 32 bytes in base64url'),
  },
  {
    error: (issue) =>
      issue.code === 'unrecognized_keys' && issue.keys.includes('d')
        ? 'holds a private key ("d"): take it out of this file and rotate it'
        : undefined,
  },
)

/** One PEM certificate of an authority. */
const RootCertificate = z
  .string()
  .max(16_384)
  .regex(
    /^-----BEGIN CERTIFICATE-----\n[A-Za-z0-9+/=\n]+-----END CERTIFICATE-----\n?$/,
    'must be one certificate in PEM',
  )

/** The value is in the Secret for credentials, under the id: a token, a client certificate, or the private key of the GitHub App. */
const CredentialPlace = CredentialFields.extend({
  githubApp: GitHubAppPlace.refine(({ apiUrl }) => isServerUrl(apiUrl), {
    message: 'must be an https URL with a host name in lower case',
    path: ['apiUrl'],
  }).optional(),
}).refine(kindFits, KIND_FITS)

/** The addresses of one server. A larger range would open a part of a network to the API and to the proxy. */
const ServerRange = Range.refine((text) => {
  const range = parseRange(text)
  return range === undefined || range.last - range.first < 256n
}, 'must be at most 256 addresses')

/** Without folders of the machine: a sandbox in a cluster sees none. */
const Ceiling = SandboxSettingsPatch.omit({ allowed_repository_roots: true }).superRefine(
  (patch, context) => {
    for (const { index, message } of patternProblems(patch))
      context.addIssue({ code: 'custom', path: ['destructive_command_patterns', index], message })
  },
)

/**
 * The sections of an environment file. Each is parsed on its own, so that all mistakes are reported at once.
 */
export const ENVIRONMENT_SECTIONS = {
  name: z
    .string()
    .regex(/^[a-z][a-z0-9-]{0,30}[a-z0-9]$/, 'must be lower-case letters, digits and "-", 2 to 32 long'),
  slice: Slice,
  /** The isolation boundary of sandboxes. `none` is for tests; every run reports it. */
  isolation: z.enum(['kata', 'gvisor', 'none']),
  egress: z.strictObject({
    mode: z.enum(['fqdn', 'closed', 'proxy']),
    /**
     * Cluster address of the proxy's Service (mode `proxy`). Sandboxes have no resolver, so they need the
     * address.
     */
    proxyAddress: z.union([z.ipv4(), z.ipv6()]).optional(),
    /** Credentials of the operator that the proxy inserts (mode `proxy`). An empty list: it inserts those of owners only. */
    credentials: z
      .array(CredentialPlace)
      .max(64)
      .refine((entries) => !hasIdTwice(entries), 'has an id twice')
      .optional(),
    /** Authorities that the proxy and the commands trust in addition to the public ones (mode `proxy`). */
    roots: z.array(RootCertificate).min(1).max(16).optional(),
    /**
     * Whether the network plugin encrypts what pods on different nodes send each other, as WireGuard does (mode `proxy`). Without
     * it, runs whose model is behind the proxy start with a warning.
     */
    isNetworkEncrypted: z.boolean().optional(),
    /**
     * Proxy of a company, through which the egress proxy reaches the hosts whose entries name no `addresses` (mode `proxy`).
     * A name needs `addresses`, because the network policies open addresses.
     */
    upstreamProxy: z
      .strictObject({ url: UpstreamProxyUrl, addresses: z.array(ServerRange).min(1).max(16).optional() })
      .optional(),
  }),
  /** The agents with a model that callers can request. Without this section, only scripted agents. */
  models: Models.prefault({}),
  /** Without it, API keys are the only credentials. */
  signIn: SignIn.optional(),
  /** Without it, the API sends no traces. */
  traces: Traces.optional(),
  /** Limits of every run that no caller and no repository can widen, as in the operator's file. */
  ceiling: Ceiling,
  gitops: z.strictObject({
    /** Git repository of the committed tree. */
    repository: z.url({ protocol: /^(?:https|ssh)$/ }),
    revision: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$/),
    /**
     * The identity that the GitOps controller applies with. Admission lets only this identity write
     * templates.
     */
    identity: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9:@._-]{0,252}$/, 'must be the name of one user'),
    /** The group that may open a shell in a sandbox in an emergency; on Azure its object id. */
    breakGlassGroup: z.string().min(1).max(256),
  }),
  infra: InfraOutputs,
  sizes: Sizes,
  images: z.strictObject({ api: ImageRef, agentHost: ImageRef, toolbox: ImageRef, egressProxy: ImageRef }),
  keys: z.strictObject({ jwks: z.strictObject({ keys: z.array(Ed25519Key).min(1).max(2) }) }),
} as const

const EnvironmentFile = z.strictObject(ENVIRONMENT_SECTIONS)

/** One environment, the only input of the charts besides `policies/agent/egress.yaml`. */
export type Environment = z.infer<typeof EnvironmentFile>
