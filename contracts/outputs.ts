import * as z from 'zod'

const Cidr = z.union([z.cidrv4(), z.cidrv6()], 'must be a range such as 10.0.0.0/16 or fd00::/64')
const Host = z
  .string()
  .max(253)
  .regex(
    /^(?=.*[a-z])[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)+$/,
    'must be a full host name in lower case',
  )
const Port = z.int().min(1).max(65_535)
const Guid = z.string().regex(/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, 'must be a GUID in lower case')
const Label = z
  .string()
  .regex(/^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/, 'must be a name of lower-case letters, digits and "-"')
const Identity = z.strictObject({ clientId: Guid })
const Vault = z.strictObject({
  name: z.string().regex(/^[a-zA-Z][a-zA-Z0-9-]{1,22}[a-zA-Z0-9]$/),
  host: Host,
})

/** What only a cluster on Azure has. No secret is among it: identities are named, vaults are named. */
const Azure = z.strictObject({
  tenantId: Guid,
  loginHost: Host,
  vaults: z.strictObject({ controlPlane: Vault, userTokens: Vault }),
  /** The command host has none. */
  identities: z.strictObject({ api: Identity, agentHost: Identity, egressProxy: Identity }),
  /**
   * Who makes the API's role in the database. Absent in a preview: whoever has this identity administers the server, and
   * the program of a preview is a branch's.
   */
  databaseSetup: z
    .strictObject({
      clientId: Guid,
      /** Its own role in the database: the name of the administrator, as Entra knows it. */
      role: Label,
      /** Object id of the API's identity, to which the API's role is mapped. */
      apiObjectId: Guid,
    })
    .optional(),
  /** The one model resource that agents may use, where there is one. */
  modelHost: Host.optional(),
})

/** What a node of the sandbox pool offers to pods, and how many nodes the pool may have. */
const SandboxNodes = z.strictObject({
  min: z.int().min(0).max(1000),
  max: z.int().min(1).max(1000),
  /** Allocatable of one node: its size less what the kubelet and the system keep. */
  cpuMillis: z.int().positive(),
  memoryMib: z.int().positive(),
  ephemeralMib: z.int().positive(),
  pods: z.int().min(1).max(1000),
  /** What the DaemonSets of every node ask for. */
  daemons: z.strictObject({
    cpuMillis: z.int().min(0),
    memoryMib: z.int().min(0),
    pods: z.int().min(0),
  }),
})

/** Outputs of the infrastructure: the section `infra` of an environment file, written by a script, never by hand. */
export const InfraOutputs = z.strictObject({
  cluster: z.strictObject({ name: Label, issuer: z.url({ protocol: /^https$/ }) }),
  network: z.strictObject({
    serviceCidrs: z.array(Cidr).min(1),
    podCidrs: z.array(Cidr).min(1),
    nodeCidrs: z.array(Cidr).min(1),
    /** Size of the range of pod addresses that each node has, as a prefix length. */
    nodePodBits: z.int().min(16).max(28),
  }),
  /** How pods reach the API server: the addresses behind the Service `kubernetes`, and their port. */
  apiServer: z.strictObject({ cidrs: z.array(Cidr).min(1), port: Port }),
  database: z.strictObject({ host: Host, cidr: Cidr, port: Port, name: Label }),
  registry: z.strictObject({
    host: z.string().regex(/^[a-z0-9][a-z0-9.-]*(?::\d+)?$/, 'must be a registry in lower case'),
  }),
  /** The API answers at `api.<zone>`; a preview at one label under `<previewZone>`. */
  dns: z.strictObject({ zone: Host, previewZone: Host }),
  gateway: z.strictObject({
    className: Label,
    /** Where the pods of a Gateway get their configuration from; with the policies, they reach nothing else of it. */
    controller: z.strictObject({ namespace: Label, port: Port }),
    /** Ports at which the pods of a Gateway are reached: its listeners, and the probe of the load balancer. */
    podPorts: z.array(Port).min(1).max(8),
    /** Options of the TLS listeners, as the class wants them; else the Secret below. */
    tlsOptions: z.record(z.string().min(1), z.string().max(4096)).optional(),
    /** Name of the TLS Secret that something else keeps in the namespace of the Gateway. */
    tlsSecret: Label.optional(),
  }),
  monitoring: z.strictObject({
    /** Where the pods run that collect figures; with the policies, they alone reach them. */
    namespace: Label,
    /** Who collects, and so in whose kinds the tree speaks: Azure's managed Prometheus, or the Prometheus operator. */
    collector: z.enum(['azure', 'operator', 'none']),
  }),
  /** Storage of workspaces that are volumes. */
  storage: z
    .strictObject({
      provisioner: z.string().min(1).max(253),
      parameters: z.record(z.string().min(1), z.string().max(1024)),
    })
    .optional(),
  sandboxNodes: SandboxNodes,
  azure: Azure.optional(),
})
export type InfraOutputs = z.infer<typeof InfraOutputs>
