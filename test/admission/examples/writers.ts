import type { KubeObject } from '../../../devcluster/client/kube-object.ts'
import type { Actor, AdmissionSpace } from '../space.ts'
import { but, create, type Draft, type Examples, patch, post, type RuleExample } from './attempt.ts'
import { OLD_CLAIM } from './claims.ts'
import { aSandboxPod } from './sandbox-pod.ts'

const EXTENSIONS = 'extensions.agents.x-k8s.io/v1beta1'
const SANDBOXES = 'agents.x-k8s.io/v1beta1'
/** What updates are tried on. */
export const OLD = {
  pod: 'old-sandbox',
  template: 'old-template',
  pool: 'old-pool',
  quota: 'old-quota',
  volume: 'old-volume',
} as const

export function anObject(space: AdmissionSpace, parts: Draft): KubeObject {
  const { apiVersion, kind, name = 'example', ...rest } = parts
  return { apiVersion, kind, metadata: { name, namespace: space.namespace }, ...rest }
}

export function aStrictTemplate(space: AdmissionSpace, name = 'example'): KubeObject {
  const { metadata, spec } = aSandboxPod(space, name) as Draft
  // The volume is the template's, so that each sandbox gets its own.
  const volumes = spec.volumes.filter((volume: Draft) => volume['name'] !== 'workspace')
  const claim = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Mi' } } }
  return anObject(space, {
    apiVersion: EXTENSIONS,
    kind: 'SandboxTemplate',
    name,
    spec: {
      networkPolicyManagement: 'Unmanaged',
      podTemplate: { metadata: { labels: metadata.labels }, spec: { ...spec, volumes } },
      volumeClaimTemplates: [{ metadata: { name: 'workspace' }, spec: claim }],
    },
  })
}

export function aStrictPool(
  space: AdmissionSpace,
  name: string,
  { template = name, replicas = 0 } = {},
): KubeObject {
  const spec = { replicas, sandboxTemplateRef: { name: template }, updateStrategy: { type: 'OnReplenish' } }
  return anObject(space, { apiVersion: EXTENSIONS, kind: 'SandboxWarmPool', name, spec })
}

/** A storage class without a provisioner, so the claim never gets a disk. */
export function aVolumeClaim(space: AdmissionSpace, name: string): KubeObject {
  const resources = { requests: { storage: '1Mi' } }
  const spec = { accessModes: ['ReadWriteOnce'], resources, storageClassName: 'nobodys' }
  return anObject(space, { apiVersion: 'v1', kind: 'PersistentVolumeClaim', name, spec })
}

/** Of what no example makes, so that it limits nothing here. */
export function aQuota(space: AdmissionSpace, name: string): KubeObject {
  const spec = { hard: { 'count/leases.coordination.k8s.io': '1' } }
  return anObject(space, { apiVersion: 'v1', kind: 'ResourceQuota', name, spec })
}

/** The same request of two people. */
const asked =
  (allowed: Actor, refused: Actor, ask: (by: Actor, space: AdmissionSpace) => RuleExample['passes']) =>
  (space: AdmissionSpace): RuleExample => ({ passes: ask(allowed, space), fails: ask(refused, space) })

const created = (allowed: Actor, refused: Actor, object: (space: AdmissionSpace) => KubeObject) =>
  asked(allowed, refused, (by, space) => create(by, object(space)))

export const WRITER_EXAMPLES: Examples = {
  'pod-maker': created('controller', 'tenant', aSandboxPod),
  'pod-binder': asked('scheduler', 'tenant', (by, space) =>
    post(
      by,
      { apiVersion: 'v1', plural: 'pods', namespace: space.namespace, name: OLD.pod, subresource: 'binding' },
      anObject(space, {
        apiVersion: 'v1',
        kind: 'Binding',
        name: OLD.pod,
        target: { kind: 'Node', name: 'kwok-0' },
      }),
    ),
  ),
  'sandbox-maker': created('controller', 'tenant', (space) =>
    anObject(space, {
      apiVersion: SANDBOXES,
      kind: 'Sandbox',
      spec: { podTemplate: { spec: (aSandboxPod(space) as Draft)['spec'] } },
    }),
  ),
  'status-writer': asked('controller', 'api', (by, { namespace }) =>
    patch(
      by,
      { apiVersion: EXTENSIONS, plural: 'sandboxclaims', namespace, name: OLD_CLAIM, subresource: 'status' },
      { status: { sandbox: { name: 'other', podIPs: ['203.0.113.1'] } } },
    ),
  ),
  'template-writer': created('gitops', 'api', aStrictTemplate),
  'template-network': (space) => ({
    passes: create('gitops', aStrictTemplate(space)),
    fails: create(
      'gitops',
      but(aStrictTemplate(space), ({ spec }) => delete spec.networkPolicyManagement),
    ),
  }),
  'template-service': (space) => ({
    passes: create('gitops', aStrictTemplate(space)),
    fails: create(
      'gitops',
      but(aStrictTemplate(space), ({ spec }) => {
        spec.service = true
      }),
    ),
  }),
  'template-injection': (space) => ({
    passes: create('gitops', aStrictTemplate(space)),
    fails: create(
      'gitops',
      but(aStrictTemplate(space), ({ spec }) => {
        spec.envVarsInjectionPolicy = 'Allowed'
      }),
    ),
  }),
  'pool-scaler': asked('gitops', 'api', (by, { namespace }) =>
    patch(
      by,
      { apiVersion: EXTENSIONS, plural: 'sandboxwarmpools', namespace, name: OLD.pool, subresource: 'scale' },
      { spec: { replicas: 500 } },
    ),
  ),
  'configuration-writer': created('gitops', 'tenant', (space) =>
    anObject(space, {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      spec: { podSelector: {}, policyTypes: ['Ingress'] },
    }),
  ),
  'quota-counter': asked('quotas', 'tenant', (by, { namespace }) =>
    patch(
      by,
      { apiVersion: 'v1', plural: 'resourcequotas', namespace, name: OLD.quota, subresource: 'status' },
      { status: { hard: { 'count/leases.coordination.k8s.io': '999' } } },
    ),
  ),
  'volume-changer': asked('controller', 'tenant', (by, { namespace }) =>
    patch(
      by,
      { apiVersion: 'v1', plural: 'persistentvolumeclaims', namespace, name: OLD.volume },
      { metadata: { labels: { 'agents.x-k8s.io/adoptable': 'true' } } },
    ),
  ),
  'no-workloads': (space) => {
    const template = { metadata: { labels: { app: 'x' } }, spec: { containers: [{ name: 'x', image: 'x' }] } }
    const job = {
      apiVersion: 'batch/v1',
      kind: 'Job',
      spec: { template: { ...template, spec: { ...template.spec, restartPolicy: 'Never' } } },
    }
    return {
      passes: create('tenant', {
        ...anObject(space, job),
        metadata: { name: 'example', namespace: 'default' },
      }),
      fails: create('tenant', anObject(space, job)),
    }
  },
}
