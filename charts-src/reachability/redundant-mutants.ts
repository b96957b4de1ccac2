/** Changes after which everything is as it was, and why: no assertion can tell them apart. */
export const REDUNDANT: readonly { readonly mutant: RegExp; readonly reason: string }[] = [
  {
    mutant: /: delete entry 0 of spec\.policyTypes$/,
    reason:
      'where no direction is named, the API server closes entering, and leaving if there are rules for it: what the policy named, or what the default deny has closed already',
  },
  {
    mutant:
      /sandbox-never: (?:every pod at spec\.endpointSelector|drop spec\.endpointSelector\.matchExpressions)$/,
    reason: 'refusals for more pods: those without a class are closed by the default deny',
  },
  {
    mutant:
      /sandbox-never: drop spec\.(?:egressDeny\[2\]\.to|ingressDeny\[1\]\.from)Endpoints\[0\]\.matchLabels$/,
    reason: "a selector without conditions is the policy's own namespace, which is what the label says",
  },
  {
    mutant:
      /(?:api-ingress|api-gateway): drop spec\.(?:in|e)gress\[0\]\.(?:from|to)\[0\]\.namespaceSelector$/,
    reason: "a peer without a namespace is of the policy's own, which is what the selector says",
  },
]
