import * as z from 'zod'

/** The branch part of a preview slice: at most 20 characters of the branch, `-`, 6 hex digits of its hash. */
export const PreviewSlug = z.string().regex(/^[a-z0-9](?:[a-z0-9-]{0,18}[a-z0-9])?-[0-9a-f]{6}$/)

/** A slice is the base deployment or one preview of a branch on the same cluster. */
export const Slice = z.union([
  z.strictObject({ kind: z.literal('base') }),
  z.strictObject({ kind: z.literal('preview'), slug: PreviewSlug }),
])
export type Slice = z.infer<typeof Slice>

/** `agent` serves a run with an agent; `command` only runs commands and holds files. */
export const SandboxKind = z.enum(['agent', 'command'])
export type SandboxKind = z.infer<typeof SandboxKind>

/** The controller's namespace. It belongs to the cluster, so slices do not rename it. */
export const CONTROLLER_NAMESPACE = 'agent-sandbox-system'

export const CONTAINERS = { agentHost: 'agent-host', toolbox: 'toolbox' } as const

export const EXECUTOR_KEYS = { file: 'jwks.json', mountPath: '/etc/agentweaver/keys' } as const

/** Mount path of the workspace. Only the toolbox container has it, owned by 1000:1000. */
export const WORKSPACE_MOUNT = '/workspace'

/**
 * Names that two layers must spell the same way. A preview slice uses `aw-pr-<slug>` instead of `agentweaver`, so a
 * branch can never name an object of the base deployment.
 */
export function names(slice: Slice) {
  const prefix = slice.kind === 'base' ? 'agentweaver' : `aw-pr-${slice.slug}`
  const pool = (kind: SandboxKind) => `${prefix}-${kind}`
  return {
    prefix,
    namespaces: {
      controlPlane: prefix,
      sandboxes: `${prefix}-sandboxes`,
      egress: `${prefix}-egress`,
      controller: CONTROLLER_NAMESPACE,
    },
    /** Name of a kind's SandboxTemplate and SandboxWarmPool. */
    pool,
    serviceAccounts: {
      api: `${prefix}-api`,
      agentHost: `${prefix}-agent-host`,
      commandHost: `${prefix}-command-host`,
      egressProxy: `${prefix}-egress-proxy`,
      /** For the Job that creates the API's database role. Previews have no such Job. */
      databaseSetup: `${prefix}-database-setup`,
    },
    executorKeys: `${prefix}-executor-keys`,
    /** Secret names in the control plane's vault. Without a vault, these are keys of the Secret `keysSecret`. */
    keySecrets: {
      deploymentKey: `${prefix}-deployment-key`,
      ticketKey: `${prefix}-ticket-key`,
      apiKey: `${prefix}-api-key`,
    },
    /** Secret with those key files in the control plane's namespace. An operator or another tool creates it. */
    keysSecret: `${prefix}-keys`,
    /** Secret with the values of the operator's credentials, by their ids, in the same namespace. Created in the same way. */
    credentialsSecret: `${prefix}-credentials`,
  } as const
}
