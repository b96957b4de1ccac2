import type { PolicySet } from './policy-generators.ts'

/**
 * Policy sets for which the evaluator and the agent once disagreed, or whose interpretation is especially important.
 * Written for `OWN`.
 */
export const KNOWN_SETS: readonly { readonly title: string; readonly policies: PolicySet }[] = [
  {
    title: 'lookups under rules that close nothing are read, and none is refused',
    policies: [
      {
        apiVersion: 'cilium.io/v2',
        kind: 'CiliumNetworkPolicy',
        metadata: { name: 'fuzz-own-set-0', namespace: 'fuzz-own' },
        spec: {
          endpointSelector: { matchLabels: { app: 'a' } },
          enableDefaultDeny: { egress: false },
          egress: [
            {
              toEndpoints: [
                {
                  matchLabels: {
                    'k8s:io.kubernetes.pod.namespace': 'kube-system',
                    'k8s:k8s-app': 'kube-dns',
                  },
                },
              ],
              toPorts: [
                {
                  ports: [{ port: '53', protocol: 'ANY' }],
                  rules: { dns: [{ matchName: 'one-a.set-own.example.net' }] },
                },
              ],
            },
            { toFQDNs: [{ matchName: 'one-a.set-own.example.net' }] },
          ],
        },
      },
    ],
  },
]
