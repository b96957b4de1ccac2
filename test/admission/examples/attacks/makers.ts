import { create, type Draft, patch, post } from '../attempt.ts'
import { aSandboxPod } from '../sandbox-pod.ts'
import { anObject, aStrictPool, aStrictTemplate, OLD } from '../writers.ts'
import { type Attacks, EXTENSIONS, pod, type Try } from './attack.ts'

const namespaced =
  (parts: Draft): Try =>
  (space) =>
    create('tenant', anObject(space, parts))
const workload = (apiVersion: string, kind: string, spec: Draft = {}) => {
  const labels = { app: 'x' }
  const template = { metadata: { labels }, spec: { containers: [{ name: 'x', image: 'x' }] } }
  return namespaced({ apiVersion, kind, spec: { selector: { matchLabels: labels }, template, ...spec } })
}

/** Other makers of pods, and changes to what runs. */
export const MAKER_ATTACKS: Attacks = {
  'a Deployment': ['no-workloads', workload('apps/v1', 'Deployment')],
  'a DaemonSet': ['no-workloads', workload('apps/v1', 'DaemonSet')],
  'a ReplicaSet': ['no-workloads', workload('apps/v1', 'ReplicaSet')],
  'a StatefulSet': ['no-workloads', workload('apps/v1', 'StatefulSet', { serviceName: 'x' })],
  'a ReplicationController': [
    'no-workloads',
    workload('v1', 'ReplicationController', { selector: { app: 'x' } }),
  ],
  'a PodTemplate': [
    'no-workloads',
    namespaced({
      apiVersion: 'v1',
      kind: 'PodTemplate',
      template: { spec: { containers: [{ name: 'x', image: 'x' }] } },
    }),
  ],
  'a pod by a controller of Kubernetes': ['pod-maker', (space) => create('collector', aSandboxPod(space))],
  'a pod by the GitOps identity': ['pod-maker', (space) => create('gitops', aSandboxPod(space))],
  'a pod by a node, as static pods are': ['pod-maker', (space) => create('node', aSandboxPod(space))],
  'a volume prepared for a sandbox to come': [
    'sandbox-maker',
    (space) =>
      create('tenant', {
        ...anObject(space, {
          apiVersion: 'v1',
          kind: 'PersistentVolumeClaim',
          spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Mi' } } },
        }),
        metadata: {
          name: 'workspace-next',
          namespace: space.namespace,
          labels: { 'agents.x-k8s.io/adoptable': 'true' },
        },
      }),
  ],
  'another class by way of pods/status': [
    'pod-labels-frozen',
    (space) =>
      patch('node', pod('status')(space), { metadata: { labels: { 'agentweaver.io/class': 'command' } } }),
  ],
  'no class at all': [
    'pod-labels-frozen',
    (space) => patch('controller', pod()(space), { metadata: { labels: { 'agentweaver.io/class': null } } }),
  ],
  'a webhook’s label on a running pod': [
    'pod-labels-frozen',
    (space) =>
      patch('controller', pod()(space), { metadata: { labels: { 'azure.workload.identity/use': 'true' } } }),
  ],
  'a mark of the controller by somebody else': [
    'pod-labels-frozen',
    (space) =>
      patch('node', pod('status')(space), { metadata: { labels: { 'agents.x-k8s.io/claim-uid': 'u' } } }),
  ],
  'another image in a running pod': [
    'pod-spec-frozen',
    (space) => ({
      ...patch('controller', pod()(space), {
        spec: { containers: [{ name: 'toolbox', image: 'registry.example/evil:1' }] },
      }),
      contentType: 'application/strategic-merge-patch+json',
    }),
  ],
  'another owner of a running pod': [
    'pod-changer',
    (space) =>
      patch('tenant', pod()(space), {
        metadata: { ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: 'x', uid: 'x' }] },
      }),
  ],
  'a binding by the old endpoint': [
    'pod-binder',
    (space) =>
      post(
        'tenant',
        { apiVersion: 'v1', plural: 'bindings', namespace: space.namespace },
        anObject(space, {
          apiVersion: 'v1',
          kind: 'Binding',
          name: OLD.pod,
          target: { kind: 'Node', name: 'kwok-0' },
        }),
      ),
  ],
  'a pool’s size by way of its scale': [
    'pool-scaler',
    (space) =>
      patch(
        'tenant',
        {
          apiVersion: EXTENSIONS,
          plural: 'sandboxwarmpools',
          namespace: space.namespace,
          name: OLD.pool,
          subresource: 'scale',
        },
        { spec: { replicas: 9 } },
      ),
  ],
  'a pool of another template': [
    'template-writer',
    (space) => create('tenant', aStrictPool(space, 'mine', { template: 'mine' })),
  ],
  'a template by the controller': [
    'template-writer',
    (space) => create('controller', aStrictTemplate(space)),
  ],
  'a changed template by the controller': [
    'template-writer',
    (space) =>
      patch(
        'controller',
        {
          apiVersion: EXTENSIONS,
          plural: 'sandboxtemplates',
          namespace: space.namespace,
          name: OLD.template,
        },
        { spec: { podTemplate: { spec: { hostNetwork: true } } } },
      ),
  ],
  'the network of a template': [
    'template-network',
    (space) =>
      patch(
        'gitops',
        {
          apiVersion: EXTENSIONS,
          plural: 'sandboxtemplates',
          namespace: space.namespace,
          name: OLD.template,
        },
        { spec: { networkPolicyManagement: 'Managed' } },
      ),
  ],
}
