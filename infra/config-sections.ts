import * as z from 'zod'
import { PreviewSlug } from '../contracts/names.ts'
import { Cidr, Label, Network, Zones } from './config-network.ts'
import { LAYERS } from './model/layers.ts'
import { fitsAzure } from './model/naming.ts'
import { parseVmSize } from './model/vm-sizes.ts'

/** Regions with three availability zones and the AKS features that the program uses. */
export const LOCATIONS = [
  'australiaeast',
  'brazilsouth',
  'canadacentral',
  'centralindia',
  'centralus',
  'eastus',
  'eastus2',
  'francecentral',
  'germanywestcentral',
  'italynorth',
  'japaneast',
  'koreacentral',
  'northeurope',
  'norwayeast',
  'polandcentral',
  'southafricanorth',
  'southcentralus',
  'southeastasia',
  'spaincentral',
  'swedencentral',
  'switzerlandnorth',
  'uaenorth',
  'uksouth',
  'westeurope',
  'westus2',
  'westus3',
] as const

const Guid = z.string().regex(/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, 'must be a GUID in lower case')
const Host = z
  .string()
  .max(200)
  .regex(/^(?=.*[a-z])[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+$/, {
    message: 'must be a domain in lower case, such as dev.example.com',
  })
const Email = z.email('must be an e-mail address')
const Size = z.string().refine((name) => parseVmSize(name) !== undefined, {
  message: 'must be a D, E, F or B machine size with its version, such as Standard_D8ds_v5',
})
const Port = z.int().min(1).max(65_535)
/** Scalars at the top of a stack file reach the program as text. Other spellings mean different things to YAML readers. */
const Switch = z.union(
  [z.boolean(), z.stringbool({ truthy: ['true'], falsy: ['false'], case: 'sensitive' })],
  'must be true or false',
)
const Count = z.union(
  [
    z.int(),
    z
      .string()
      .regex(/^[1-9]\d{0,8}$/)
      .transform(Number),
  ],
  'must be a number in plain digits',
)

const Tags = z.strictObject({
  owner: z.string().min(1).max(256),
  costCenter: z.string().min(1).max(256),
})

const ApiServer = z.discriminatedUnion('access', [
  /** Reachable only from its network, so the program must run inside the network. */
  z.strictObject({
    access: z.literal('private'),
    /** A public DNS name for the private address, for a peered network that cannot resolve our private zone. */
    publicName: z.boolean().default(false),
  }),
  z.strictObject({ access: z.literal('authorizedRanges'), ranges: z.array(Cidr).min(1).max(200) }),
])

const poolFields = {
  min: z.int().min(0).max(1000),
  max: z.int().min(1).max(1000),
  /** Immutable. `generation` distinguishes two pools with the same purpose. */
  zones: Zones.default(['1', '2', '3']),
  /** Immutable. Pods of one node; the overlay gives each node 256 addresses. */
  maxPods: z.int().min(30).max(250).default(110),
  osDiskGib: z.int().min(64).max(2048).default(128),
} as const

const Daemons = z.strictObject({
  cpuMillis: z.int().min(0).default(520),
  memoryMib: z.int().min(0).default(900),
  pods: z.int().min(0).default(9),
})

const SystemPool = z.strictObject({
  ...poolFields,
  size: Size.default('Standard_D4ds_v5'),
  min: poolFields.min.default(2),
  max: poolFields.max.default(3),
})
const AppPool = z.strictObject({
  ...poolFields,
  size: Size.default('Standard_D4ds_v5'),
  min: poolFields.min.default(1),
  max: poolFields.max.default(5),
  /** Part of the pool's name: a higher number creates a second pool, so that an immutable setting can change. */
  generation: z.int().min(1).max(99).default(1),
})
const KataPool = z.strictObject({
  ...AppPool.shape,
  size: Size.default('Standard_D8ds_v5'),
  osDiskGib: poolFields.osDiskGib.default(256),
  /** The resource requests of the DaemonSets on every node. */
  daemons: Daemons.prefault({}),
  /** Allocatable resources of a node as `agentweaver verify` measured them. Default: computed from the size. */
  measured: z
    .strictObject({
      cpuMillis: z.int().positive(),
      memoryMib: z.int().positive(),
      ephemeralMib: z.int().positive(),
    })
    .optional(),
})
const Pools = z.strictObject({
  system: SystemPool.prefault({}),
  app: AppPool.prefault({}),
  kata: KataPool.prefault({}),
})

/** One sandbox as the scheduler sees it, and how many the environment promises at once. */
const Sandbox = z.strictObject({
  cpuMillis: z.int().min(10).default(1000),
  memoryMib: z.int().min(128).default(2048),
  overheadMib: z.int().min(0).default(256),
  warm: z.int().min(0).default(5),
  max: z.int().min(1).default(20),
})

const Database = z.strictObject({
  size: Size.default('Standard_D2ds_v5'),
  version: z.enum(['15', '16', '17']).default('17'),
  storageGib: z.union([32, 64, 128, 256, 512, 1024, 2048].map((gib) => z.literal(gib))).default(128),
  highAvailability: z.boolean().default(false),
  backupDays: z.int().min(7).max(35).default(7),
  /** Immutable. */
  geoRedundantBackup: z.boolean().default(false),
  /** The Entra group that administers the database. The API is not an administrator (`docs/infra.md`). */
  adminGroup: z.strictObject({ objectId: Guid, name: z.string().min(1).max(256) }),
})

const Registry = z.strictObject({
  sku: z.enum(['Standard', 'Premium']).default('Standard'),
  /** Ranges that may push images if the registry is not open to the Internet. Needs Premium. */
  allowedRanges: z.array(Cidr).max(100).optional(),
})

const Observability = z.strictObject({
  retentionDays: z.int().min(30).max(730).default(30),
  grafana: z.boolean().default(false),
  /** The recipients of alerts. */
  alertEmails: z.array(Email).min(1).max(20),
})

const Budget = z.strictObject({
  /** In the currency of the subscription, a month. */
  amount: z.number().positive(),
  startDate: z
    .string()
    .regex(/^\d{4}-(?:0[1-9]|1[0-2])-01$/, 'must be the first day of a month, in quotes: "2027-01-01"'),
  emails: z.array(Email).min(1).max(20),
})

const Dns = z.strictObject({
  zone: Host,
  /**
   * The service account that obtains certificates by DNS challenges, and the one that manages the records of
   * Gateways.
   */
  certificates: z
    .strictObject({
      namespace: Label.default('cert-manager'),
      serviceAccount: Label.default('cert-manager'),
    })
    .prefault({}),
  records: z
    .strictObject({
      namespace: Label.default('external-dns'),
      serviceAccount: Label.default('external-dns'),
    })
    .prefault({}),
})

const Gateway = z.strictObject({
  className: Label.default('approuting-istio'),
  controller: z
    .strictObject({ namespace: Label.default('aks-istio-system'), port: Port.default(15_012) })
    .prefault({}),
  podPorts: z.array(Port).min(1).max(8).default([80, 443, 15_021]),
  tlsSecret: Label.default('agentweaver-tls'),
})

const ByDigest = z
  .string()
  .regex(
    /^(?:[a-z0-9-]+\.)+[a-z0-9-]+(?:\/[a-z0-9]+(?:[._-][a-z0-9]+)*)+@sha256:[0-9a-f]{64}$/,
    'must be <registry>/<name>@sha256:<64 hex digits>, without a tag',
  )
const Controller = z.discriminatedUnion('install', [
  /** The pinned upstream release, its objects applied by the program. */
  z.strictObject({
    install: z.literal('upstream'),
    image: ByDigest,
    replicas: z.int().min(1).max(3).default(2),
    /** Folder with the release's files. @default where `npm run controller -- fetch` puts them */
    folder: z.string().min(1).max(4096).optional(),
  }),
  /** The AKS extension, which is a preview: type and version as the vendor publishes them. */
  z.strictObject({
    install: z.literal('aksExtension'),
    extensionType: z.string().regex(/^[A-Za-z0-9.-]+$/),
    version: z.string().regex(/^\d+\.\d+\.\d+$/, 'must be one exact version'),
  }),
])

const globalName = (kind: 'vault' | 'registry' | 'database', what: string) =>
  z
    .string()
    .refine((name) => fitsAzure(kind, name), what)
    .optional()

/** Globally unique names, for the case that the generated name is taken or still reserved after a deletion. */
const Names = z.strictObject({
  registry: globalName('registry', 'must be 5 to 50 letters and digits'),
  controlPlaneVault: globalName('vault', 'must be 3 to 24 letters, digits and single "-", first a letter'),
  userTokenVault: globalName('vault', 'must be 3 to 24 letters, digits and single "-", first a letter'),
  database: globalName('database', 'must be 3 to 63 lower-case letters, digits and "-"'),
})

/** The one model resource that agents may call, with the identity of the egress proxy. */
const Model = z.strictObject({
  resourceId: z
    .string()
    .regex(
      /^\/subscriptions\/[0-9a-f-]{36}\/resourceGroups\/[^/]+\/providers\/Microsoft\.CognitiveServices\/accounts\/[^/]+$/,
      'must be the full id of one Microsoft.CognitiveServices account',
    ),
  host: Host,
})

const PLATFORM = {
  /** `all` is one stack for all layers. The stack file of a layer names its layer (`LayerSections`). */
  layer: z.literal('all', `must be one of ${['all', ...LAYERS].join(', ')}`).default('all'),
  environment: z.string().regex(/^[a-z][a-z0-9]{1,7}$/, 'must be 2 to 8 lower-case letters and digits'),
  subscriptionId: Guid,
  tenantId: Guid,
  /** Immutable. */
  location: z.enum(LOCATIONS),
  /** Entra groups that administer the cluster. */
  adminGroupIds: z.array(Guid).min(1).max(10),
  tags: Tags,
  /** Whether Pulumi rejects the deletion and replacement of resources that hold state. */
  protect: Switch.default(true),
  /**
   * Increase it when an identity was recreated under its old name: Azure refuses to change the principal of a grant.
   */
  grantGeneration: Count.pipe(z.int().min(1)).default(1),
  kubernetes: z
    .strictObject({
      version: z.enum(['1.35', '1.36', '1.37']).default('1.36'),
      tier: z.enum(['Standard', 'Premium']).default('Standard'),
    })
    .prefault({}),
  network: Network.prefault({}),
  apiServer: ApiServer,
  pools: Pools.prefault({}),
  /** vCPUs that the subscription has in the region, by family (`az vm list-usage`). A family left out is not checked. */
  quota: z.record(z.string().regex(/^standard[A-Za-z0-9]+Family$/), z.int().min(0)).default({}),
  sandbox: Sandbox.prefault({}),
  /** `fqdn` needs the policies of Advanced Container Networking Services, which are paid by node-hour. */
  egress: z
    .strictObject({
      mode: z.enum(['proxy', 'fqdn', 'closed']).default('proxy'),
      advancedPolicies: z.enum(['None', 'FQDN', 'L7']).default('FQDN'),
    })
    .prefault({}),
  names: Names.prefault({}),
  database: Database,
  registry: Registry.prefault({}),
  /** Disks of workspaces that are stored on volumes. */
  workspaceDisks: z.enum(['PremiumV2_LRS', 'Premium_LRS', 'Premium_ZRS']).default('PremiumV2_LRS'),
  observability: Observability,
  budget: Budget,
  dns: Dns,
  gateway: Gateway.prefault({}),
  controller: Controller,
  model: Model.optional(),
  /** Whether Azure preview features may be used. In `prod` it also needs `allowPreviewInProd`. */
  previewFeatures: Switch.default(false),
  allowPreviewInProd: Switch.default(false),
} as const

const Quantity = z.int().positive()
const SLICE = {
  /** The environment of the platform that hosts the slice. */
  environment: PLATFORM.environment,
  slug: PreviewSlug,
  /** The name of the branch, for a tag. */
  branch: z.string().min(1).max(256),
  expires: z.iso.datetime({ message: 'must be a time in UTC such as 2027-01-31T00:00:00Z' }),
  tags: Tags,
  /** The quota of each namespace of the slice. It limits the resource requests of the branch's tree. */
  ceiling: z
    .strictObject({
      pods: Quantity.default(12),
      cpuMillis: Quantity.default(16_000),
      memoryMib: Quantity.default(16_384),
    })
    .prefault({}),
} as const

/** Sections of a whole platform, by key; each has a default or is required. */
export const PlatformSections = z.strictObject({ kind: z.literal('platform'), ...PLATFORM })
export const SliceSections = z.strictObject({ kind: z.literal('slice'), ...SLICE })

/**
 * One layer of a platform. All other settings come from `Pulumi.<environment>.yaml`, so that layers cannot disagree.
 */
export const LayerSections = z.strictObject({
  kind: z.literal('platform'),
  layer: z.enum(LAYERS),
  // Stacks called `pr-…` are previews: their identity may write the state of any of them.
  environment: PLATFORM.environment.refine((name) => name !== 'pr', {
    message: 'must not be "pr": stacks called "pr-…" are previews',
  }),
})

export type PlatformConfig = z.infer<typeof PlatformSections>
export type SliceConfig = z.infer<typeof SliceSections>
export type LayerConfig = z.infer<typeof LayerSections>
export type InfraConfig = PlatformConfig | LayerConfig | SliceConfig

export interface ConfigProblem {
  /** Key in the stack file, with dots below it: `pools.kata.size`. */
  readonly path: string
  /** The problem, and the value to write instead. */
  readonly message: string
}

/** All problems of one file or stack as lines of text. */
export const problemLines = (what: string, problems: readonly ConfigProblem[]): string =>
  [
    `${what} has ${problems.length} mistake(s):`,
    ...problems.map(({ path, message }) => `  ${path}: ${message}`),
  ].join('\n')
