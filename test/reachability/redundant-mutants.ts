interface RedundantMutant {
  /** Titles of the mutants. */
  readonly mutant: RegExp
  readonly what: string
  readonly reason: string
}

/** Changes after which everything is as it was, and why: no assertion can tell them apart. */
export const REDUNDANT: readonly RedundantMutant[] = [
  {
    mutant: /: delete entry 0 of spec\.policyTypes$/,
    what: 'the only direction taken out of `policyTypes`',
    reason:
      'where no direction is named, the API server closes entering, and leaving if there are rules for it: what the policy named, or what the default deny has closed already',
  },
  {
    mutant:
      /sandbox-never: (?:every pod at spec\.endpointSelector|drop spec\.endpointSelector\.matchExpressions)$/,
    what: '`sandbox-never` for every pod of its namespace',
    reason: 'refusals for more pods: those without a class are closed by the default deny',
  },
  {
    mutant:
      /sandbox-never: drop spec\.(?:egressDeny\[2\]\.to|ingressDeny\[1\]\.from)Endpoints\[0\]\.matchLabels$/,
    what: 'the namespace taken out of a peer of `sandbox-never` that is its own',
    reason: "a selector without conditions is the policy's own namespace, which is what the label says",
  },
  {
    mutant:
      /(?:api-ingress|api-gateway): drop spec\.(?:in|e)gress\[0\]\.(?:from|to)\[0\]\.namespaceSelector$/,
    what: 'the namespace taken out of a peer of `api-ingress` or `api-gateway` that is its own',
    reason: "a peer without a namespace is of the policy's own, which is what the selector says",
  },
]
