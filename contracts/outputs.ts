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

/** Values that exist only on Azure. It contains names of identities and vaults, never a secret. */
const Azure = z.strictObject({
  tenantId: Guid,
  loginHost: Host,
  vaults: z.strictObject({ controlPlane: Vault, userTokens: Vault }),
  /** AgentHost has an identity only in mode `fqdn`, where it reads tokens of owners from the vault. The command host has none. */
  identities: z.strictObject({ api: Identity, agentHost: Identity.optional(), egressProxy: Identity }),
  /**
   * Identity that creates the API's database role. Absent in a preview: this identity administers the database server,
   * and a preview runs code from a branch.
   */
  databaseSetup: z
    .strictObject({
      clientId: Guid,
      /** Its own database role: the administrator's name in Entra. */
      role: Label,
      /** Object id of the API's identity; the API's role maps to it. */
      apiObjectId: Guid,
    })
    .optional(),
  /** The one model resource that agents may use, if any. */
  modelHost: Host.optional(),
})

/** Capacity of one node in the sandbox pool, and the pool's size limits. */
const SandboxNodes = z.strictObject({
  min: z.int().min(0).max(1000),
  max: z.int().min(1).max(1000),
  /** Allocatable of one node: its size minus the reservations of the kubelet and the system. */
  cpuMillis: z.int().positive(),
  memoryMib: z.int().positive(),
  ephemeralMib: z.int().positive(),
  pods: z.int().min(1).max(1000),
  /** Requests of the DaemonSets that run on every node. */
  daemons: z.strictObject({
    cpuMillis: z.int().min(0),
    memoryMib: z.int().min(0),
    pods: z.int().min(0),
  }),
})

/** Outputs of the infrastructure: the section `infra` of an environment file. A script writes it; do not edit it. */
export const InfraOutputs = z.strictObject({
  cluster: z.strictObject({ name: Label, issuer: z.url({ protocol: /^https$/ }) }),
  network: z.strictObject({
    serviceCidrs: z.array(Cidr).min(1),
    podCidrs: z.array(Cidr).min(1),
    nodeCidrs: z.array(Cidr).min(1),
    /** Prefix length of the pod address range of one node. */
    nodePodBits: z.int().min(16).max(28),
  }),
  /** How pods reach the API server: the addresses behind the Service `kubernetes`, and their port. */
  apiServer: z.strictObject({ cidrs: z.array(Cidr).min(1), port: Port }),
  database: z.strictObject({ host: Host, cidr: Cidr, port: Port, name: Label }),
  registry: z.strictObject({
    host: z.string().regex(/^[a-z0-9][a-z0-9.-]*(?::\d+)?$/, 'must be a registry in lower case'),
  }),
  /** The API's host name is `api.<zone>`; a preview's is one label under `<previewZone>`. */
  dns: z.strictObject({ zone: Host, previewZone: Host }),
  gateway: z.strictObject({
    className: Label,
    /** Where a Gateway's pods get their configuration. Network policies allow them nothing else in that namespace. */
    controller: z.strictObject({ namespace: Label, port: Port }),
    /** Ports on which a Gateway's pods are reached: its listeners, and the load balancer's probe. */
    podPorts: z.array(Port).min(1).max(8),
    /** TLS options of the listeners, as the Gateway class needs them; otherwise `tlsSecret` is used. */
    tlsOptions: z.record(z.string().min(1), z.string().max(4096)).optional(),
    /** TLS Secret in the Gateway's namespace. Another tool creates it, such as cert-manager. */
    tlsSecret: Label.optional(),
  }),
  monitoring: z.strictObject({
    /** Namespace of the pods that scrape metrics. Network policies allow only them to reach the metrics ports. */
    namespace: Label,
    /** Decides the API kinds that are rendered: Azure's managed Prometheus, or the Prometheus operator. */
    collector: z.enum(['azure', 'operator', 'none']),
  }),
  /** Storage for workspaces that are volumes. */
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
