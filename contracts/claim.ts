/** The SandboxClaim API. Its version is written only here. */
export const CLAIM = {
  group: 'extensions.agents.x-k8s.io',
  version: 'v1beta1',
  plural: 'sandboxclaims',
  kind: 'SandboxClaim',
} as const

/** Name prefix of a claim, by sandbox kind. */
export const CLAIM_PREFIX = { agent: 'agent-', command: 'cmd-' } as const

/** This TTL never applies to a pod that keeps running, so claims always set an absolute `shutdownTime` too. */
export const CLAIM_TTL_SECONDS_AFTER_FINISHED = 600
