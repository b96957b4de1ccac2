import * as z from 'zod'

/** The branch part of a preview slice: at most 20 characters of the branch, `-`, 6 hex digits of its hash. */
export const PreviewSlug = z.string().regex(/^[a-z0-9](?:[a-z0-9-]{0,18}[a-z0-9])?-[0-9a-f]{6}$/)

/** A slice is the base deployment or one preview of a branch on the same cluster. */
export const Slice = z.union([
  z.strictObject({ kind: z.literal('base') }),
  z.strictObject({ kind: z.literal('preview'), slug: PreviewSlug }),
])
export type Slice = z.infer<typeof Slice>

/** What a sandbox is for: `agent` serves a run with an agent, `command` only runs commands and holds files. */
export const SandboxKind = z.enum(['agent', 'command'])
export type SandboxKind = z.infer<typeof SandboxKind>

/** The controller's namespace; it belongs to the cluster and no slice renames it. */
export const CONTROLLER_NAMESPACE = 'agent-sandbox-system'

export const CONTAINERS = { agentHost: 'agent-host', toolbox: 'toolbox' } as const

export const EXECUTOR_KEYS = { file: 'jwks.json', mountPath: '/etc/agentweaver/keys' } as const

/** Where the workspace is mounted, in the toolbox alone, owned by 1000:1000. */
export const WORKSPACE_MOUNT = '/workspace'

/**
 * Every name that two layers must spell alike. A preview slice has `aw-pr-<slug>` in place of `agentweaver`,
 * so no branch can name the base's things.
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
    /** Name of the SandboxTemplate and of the SandboxWarmPool of a kind. */
    pool,
    serviceAccounts: {
      api: `${prefix}-api`,
      agentHost: `${prefix}-agent-host`,
      commandHost: `${prefix}-command-host`,
      egressProxy: `${prefix}-egress-proxy`,
      /** Of the Job that makes the API's role in the database. Previews have none. */
      databaseSetup: `${prefix}-database-setup`,
    },
    executorKeys: `${prefix}-executor-keys`,
    /** Secrets of the control plane's vault, and keys of the Secret of that name where there is no vault. */
    keySecrets: {
      deploymentKey: `${prefix}-deployment-key`,
      ticketKey: `${prefix}-ticket-key`,
      apiKey: `${prefix}-api-key`,
    },
    /** The Secret with the files of those keys, which something else keeps in the control plane's namespace. */
    keysSecret: `${prefix}-keys`,
  } as const
}
