import { connect, create, type Draft, patch, post, put, remove } from '../attempt.ts'
import { anObject, OLD } from '../writers.ts'
import { type Attacks, EXTENSIONS, pod, type Try } from './attack.ts'

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
    ['configuration-writer', 'parameter-writer'],
    (space) =>
      patch(
        'api',
        { apiVersion: 'v1', plural: 'configmaps', namespace: space.namespace, name: 'agentweaver-admission' },
        { data: { pools: 'lax' } },
      ),
  ],
  'no parameters': [
    ['configuration-writer', 'parameter-writer'],
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
  'the label that the rules go by, taken away by way of the namespace’s status': [
    'namespace-label',
    (space) =>
      patch(
        'tenant',
        { apiVersion: 'v1', plural: 'namespaces', name: space.namespace, subresource: 'status' },
        { metadata: { labels: { [space.sliceLabel]: null } } },
      ),
  ],
  'the same by way of its end': [
    'namespace-label',
    (space) => {
      const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: space.namespace } }
      const { url, ...attempt } = put('tenant', namespace)
      return { ...attempt, url: url.replace('?', '/finalize?') }
    },
  ],
  'a token of the API’s own account': [
    'token-minter',
    ({ controlPlane, parameters }) =>
      post(
        'tenant',
        {
          apiVersion: 'v1',
          plural: 'serviceaccounts',
          namespace: controlPlane,
          name: parameters.agentAccount,
          subresource: 'token',
        },
        { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} },
      ),
  ],
  'a token of it that never expires': [
    'account-secret',
    ({ controlPlane, parameters }) =>
      create('tenant', {
        apiVersion: 'v1',
        kind: 'Secret',
        type: 'kubernetes.io/service-account-token',
        metadata: {
          name: 'x',
          namespace: controlPlane,
          annotations: { 'kubernetes.io/service-account.name': parameters.agentAccount },
        },
      }),
  ],
  'the account of sandboxes, removed': [
    'account-writer',
    ({ namespace, parameters }) =>
      remove('tenant', {
        apiVersion: 'v1',
        plural: 'serviceaccounts',
        namespace,
        name: parameters.agentAccount,
      }),
  ],
  'rights for everybody who has signed in': [
    'rights-for-everybody',
    namespaced({
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'RoleBinding',
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'edit' },
      subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'Group', name: 'system:authenticated' }],
    }),
  ],
  'another disk behind a volume': [
    'volume-changer',
    ({ namespace }) =>
      patch(
        'tenant',
        { apiVersion: 'v1', plural: 'persistentvolumeclaims', namespace, name: OLD.volume },
        { spec: { volumeName: 'prepared' } },
      ),
  ],
  'a volume offered by way of its status': [
    'volume-changer',
    ({ namespace }) =>
      patch(
        'tenant',
        {
          apiVersion: 'v1',
          plural: 'persistentvolumeclaims',
          namespace,
          name: OLD.volume,
          subresource: 'status',
        },
        { metadata: { labels: { 'agents.x-k8s.io/adoptable': 'true' } } },
      ),
  ],
  'a folder of the node, of the class of workspaces': [
    'volume-source',
    ({ namespace }) =>
      create('tenant', {
        apiVersion: 'v1',
        kind: 'PersistentVolume',
        metadata: { name: 'prepared' },
        spec: {
          capacity: { storage: '1Gi' },
          accessModes: ['ReadWriteOnce'],
          storageClassName: namespace.replace('-sandboxes', '-workspace'),
          hostPath: { path: '/etc' },
        },
      }),
  ],
  'an autoscaler that scales a pool for its maker': [
    'configuration-writer',
    (space) =>
      create(
        'tenant',
        anObject(space, {
          apiVersion: 'autoscaling/v2',
          kind: 'HorizontalPodAutoscaler',
          spec: {
            scaleTargetRef: { apiVersion: EXTENSIONS, kind: 'SandboxWarmPool', name: OLD.pool },
            minReplicas: 900,
            maxReplicas: 900,
          },
        }),
      ),
  ],
  'a budget that keeps nodes from being drained': [
    'configuration-writer',
    namespaced({
      apiVersion: 'policy/v1',
      kind: 'PodDisruptionBudget',
      spec: { maxUnavailable: 0, selector: {} },
    }),
  ],
  'endpoints by the API': [
    'endpoint-writer',
    (space) =>
      create(
        'api',
        anObject(space, {
          apiVersion: 'discovery.k8s.io/v1',
          kind: 'EndpointSlice',
          addressType: 'IPv4',
          endpoints: [{ addresses: ['203.0.113.7'] }],
        }),
      ),
  ],
  'a Service of every sandbox, without a selector': [
    'service-selector',
    (space) =>
      create(
        'api',
        anObject(space, {
          apiVersion: 'v1',
          kind: 'Service',
          spec: { ports: [{ port: 80, targetPort: 3000 }] },
        }),
      ),
  ],
  'an Ingress': [
    'route-writer',
    namespaced({
      apiVersion: 'networking.k8s.io/v1',
      kind: 'Ingress',
      spec: { defaultBackend: { service: { name: 'x', port: { number: 80 } } } },
    }),
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
