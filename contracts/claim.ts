/** The claim API. The only place where its version is written. */
export const CLAIM = {
  group: 'extensions.agents.x-k8s.io',
  version: 'v1beta1',
  plural: 'sandboxclaims',
  kind: 'SandboxClaim',
} as const

/** Name prefix of a claim by what it is for. */
export const CLAIM_PREFIX = { agent: 'agent-', command: 'cmd-' } as const

/** A TTL alone never fires for a pod that keeps running: an absolute `shutdownTime` is always sent too. */
export const CLAIM_TTL_SECONDS_AFTER_FINISHED = 600
