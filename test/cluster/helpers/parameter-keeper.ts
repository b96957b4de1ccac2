import type { KubeClient } from '../../../devcluster/client/kube-client.ts'

const API_VERSION = 'admissionregistration.k8s.io/v1'
const NAME = 'agentweaver-test-keeps-parameters'

/**
 * Keeps the API server's informer of ConfigMap parameters alive for the whole run. Once no binding names a built-in
 * parameter kind for a second, that informer stops permanently (kubernetes#130887). From then on, every decision either
 * costs the API server a request to itself or uses an outdated parameter. The object therefore stays on clusters that
 * we did not start, too: its removal would stop the informer.
 */
export async function keepParameters(client: KubeClient): Promise<void> {
  const metadata = { name: NAME }
  await client.apply({
    apiVersion: API_VERSION,
    kind: 'ValidatingAdmissionPolicy',
    metadata,
    spec: {
      failurePolicy: 'Ignore',
      paramKind: { apiVersion: 'v1', kind: 'ConfigMap' },
      matchConstraints: {
        resourceRules: [
          {
            apiGroups: ['agentweaver.test'],
            apiVersions: ['v1'],
            operations: ['CREATE'],
            resources: ['nothing'],
          },
        ],
      },
      validations: [{ expression: 'true' }],
    },
  })
  await client.apply({
    apiVersion: API_VERSION,
    kind: 'ValidatingAdmissionPolicyBinding',
    metadata,
    spec: {
      policyName: NAME,
      validationActions: ['Deny'],
      paramRef: { name: NAME, namespace: 'default', parameterNotFoundAction: 'Allow' },
    },
  })
}
