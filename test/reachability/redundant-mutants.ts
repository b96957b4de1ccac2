interface RedundantMutant {
  /** Titles of the mutants. */
  readonly mutant: RegExp
  readonly what: string
  readonly reason: string
}

/** Mutations without an effect, which no assertion can detect, and the reasons. */
export const REDUNDANT: readonly RedundantMutant[] = [
  {
    mutant: /: delete entry 0 of spec\.policyTypes$/,
    what: 'the only entry of `policyTypes` deleted',
    reason:
      'without `policyTypes`, the API server assumes ingress, and egress if the policy has egress rules. That is the deleted entry, or a direction that the default deny already closes',
  },
  {
    mutant:
      /sandbox-never: (?:every pod at spec\.endpointSelector|drop spec\.endpointSelector\.matchExpressions)$/,
    what: '`sandbox-never` for every pod of its namespace',
    reason:
      'it denies connections of additional pods, which have no class and which the default deny already closes',
  },
  {
    mutant:
      /sandbox-never: drop spec\.(?:egressDeny\[2\]\.to|ingressDeny\[1\]\.from)Endpoints\[0\]\.matchLabels$/,
    what: 'the label of the same namespace deleted from a peer of `sandbox-never`',
    reason: "a selector without conditions selects the policy's own namespace",
  },
  {
    mutant:
      /(?:api-ingress|api-gateway): drop spec\.(?:in|e)gress\[0\]\.(?:from|to)\[0\]\.namespaceSelector$/,
    what: 'the selector of the same namespace deleted from a peer of `api-ingress` or `api-gateway`',
    reason: "a peer without a namespace selector is in the policy's own namespace",
  },
]
