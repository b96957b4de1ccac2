import { connect, create, type Draft, patch, post, remove } from '../attempt.ts'
import { anObject } from '../writers.ts'
import { type Attacks, pod, type Try } from './attack.ts'

const namespaced =
  (parts: Draft): Try =>
  (space) =>
    create('tenant', anObject(space, parts))

/** Ways to a running sandbox, to its identity and to the rules themselves. */
export const ACCESS_ATTACKS: Attacks = {
  attach: ['shells', (space) => connect('gitops', pod('attach')(space))],
  'port-forward': ['shells', (space) => connect('gitops', pod('portforward')(space))],
  'the API server’s proxy to a pod': ['shells', (space) => connect('api', { ...pod('proxy')(space) })],
  'exec by the controller': ['shells', (space) => connect('controller', pod('exec')(space))],
  'a token of the agents’ account, asked for by the GitOps identity': [
    'token-minter',
    (space) =>
      post(
        'gitops',
        {
          apiVersion: 'v1',
          plural: 'serviceaccounts',
          namespace: space.namespace,
          name: space.parameters.agentAccount,
          subresource: 'token',
        },
        { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} },
      ),
  ],
  'a network policy beside ours': [
    'configuration-writer',
    namespaced({
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      spec: { podSelector: {}, egress: [{}], policyTypes: ['Egress'] },
    }),
  ],
  'other keys for AgentHost': [
    'configuration-writer',
    namespaced({ apiVersion: 'v1', kind: 'ConfigMap', name: 'agentweaver-executor-keys', data: {} }),
  ],
  'kube-root-ca.crt as a disguise': [
    'configuration-writer',
    namespaced({ apiVersion: 'v1', kind: 'ConfigMap', name: 'kube-root-ca.crt', data: {} }),
  ],
  'other parameters': [
    'configuration-writer',
    (space) =>
      patch(
        'api',
        { apiVersion: 'v1', plural: 'configmaps', namespace: space.namespace, name: 'agentweaver-admission' },
        { data: { pools: 'lax' } },
      ),
  ],
  'no parameters': [
    'configuration-writer',
    (space) =>
      remove('api', {
        apiVersion: 'v1',
        plural: 'configmaps',
        namespace: space.namespace,
        name: 'agentweaver-admission',
      }),
  ],
  'rights for all accounts of the namespace': [
    'sandbox-rights',
    (space) =>
      create('gitops', {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'ClusterRoleBinding',
        metadata: { name: 'x' },
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'view' },
        subjects: [
          {
            apiGroup: 'rbac.authorization.k8s.io',
            kind: 'Group',
            name: `system:serviceaccounts:${space.namespace}`,
          },
        ],
      }),
  ],
  'rights for a sandbox, spelt as a user': [
    'sandbox-rights',
    (space) =>
      create('gitops', {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'ClusterRoleBinding',
        metadata: { name: 'x' },
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'view' },
        subjects: [
          {
            apiGroup: 'rbac.authorization.k8s.io',
            kind: 'User',
            name: `system:serviceaccount:${space.namespace}:x`,
          },
        ],
      }),
  ],
  'no quota': [
    'configuration-writer',
    namespaced({ apiVersion: 'v1', kind: 'ResourceQuota', spec: { hard: { pods: '9999' } } }),
  ],
  'an address of the outside for a sandbox': [
    'service-exposure',
    (space) =>
      create(
        'api',
        anObject(space, {
          apiVersion: 'v1',
          kind: 'Service',
          spec: { ports: [{ port: 80, targetPort: 3000 }], externalIPs: ['203.0.113.9'] },
        }),
      ),
  ],
  'AgentHost’s port, left to the default': [
    'service-port',
    (space) =>
      create(
        'api',
        anObject(space, { apiVersion: 'v1', kind: 'Service', spec: { ports: [{ port: 8088 }] } }),
      ),
  ],
  'AgentHost’s port, by its name': [
    'service-port',
    (space) =>
      create(
        'api',
        anObject(space, {
          apiVersion: 'v1',
          kind: 'Service',
          spec: { ports: [{ port: 80, targetPort: 'a2a' }] },
        }),
      ),
  ],
  'Pod Security switched off': [
    'namespace-label',
    (space) =>
      patch(
        'tenant',
        { apiVersion: 'v1', plural: 'namespaces', name: space.namespace },
        { metadata: { labels: { 'pod-security.kubernetes.io/enforce': 'privileged' } } },
      ),
  ],
  'a namespace that joins the slice': [
    'namespace-label',
    (space) =>
      patch(
        'tenant',
        { apiVersion: 'v1', plural: 'namespaces', name: 'default' },
        { metadata: { labels: { [space.sliceLabel]: 'base' } } },
      ),
  ],
}
