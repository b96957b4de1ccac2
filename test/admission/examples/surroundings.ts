import type { AdmissionSpace } from '../space.ts'
import { create, type Draft, type Examples, type RuleExample } from './attempt.ts'
import { anObject } from './writers.ts'

const ONE_RUN = { 'agents.x-k8s.io/claim-uid': 'u' }
const service = (space: AdmissionSpace, fields: Draft = {}) =>
  anObject(space, {
    apiVersion: 'v1',
    kind: 'Service',
    spec: { selector: ONE_RUN, ports: [{ port: 80, targetPort: 3000 }], ...fields },
  })
const weakened =
  (fields: Draft) =>
  (space: AdmissionSpace): RuleExample => ({
    passes: create('api', service(space)),
    fails: create('api', service(space, fields)),
  })
const slice = (space: AdmissionSpace) =>
  anObject(space, {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    addressType: 'IPv4',
    endpoints: [{ addresses: ['203.0.113.7'] }],
    ports: [{ port: 8088 }],
  })
const ingress = (space: AdmissionSpace) =>
  anObject(space, {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'Ingress',
    spec: { defaultBackend: { service: { name: 'x', port: { number: 80 } } } },
  })
const disk = ({ namespace }: AdmissionSpace, source: Draft) =>
  create('tenant', {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name: 'prepared' },
    spec: {
      capacity: { storage: '1Gi' },
      accessModes: ['ReadWriteOnce'],
      claimRef: { namespace, name: 'workspace-next' },
      ...source,
    },
  })
const runtimeClass = (handler: string) =>
  create('gitops', {
    apiVersion: 'node.k8s.io/v1',
    kind: 'RuntimeClass',
    metadata: { name: 'agentweaver-kata' },
    handler,
  })

export const SURROUNDING_EXAMPLES: Examples = {
  'service-writer': (space) => ({
    passes: create('api', service(space)),
    fails: create('tenant', service(space)),
  }),
  'service-exposure': weakened({ type: 'NodePort' }),
  'service-port': weakened({ ports: [{ port: 80, targetPort: 8088 }] }),
  'service-selector': weakened({ selector: { 'agentweaver.io/class': 'agent' } }),
  'endpoint-writer': (space) => ({
    passes: create('endpoints', slice(space)),
    fails: create('tenant', slice(space)),
  }),
  'route-writer': (space) => ({
    passes: create('gitops', ingress(space)),
    fails: create('api', ingress(space)),
  }),
  'volume-source': (space) => ({
    passes: disk(space, { csi: { driver: 'disk.csi.azure.com', volumeHandle: 'x' } }),
    fails: disk(space, { hostPath: { path: '/' } }),
  }),
  'runtime-handler': () => ({
    passes: { ...runtimeClass('kata'), endsLater: true },
    fails: runtimeClass('runc'),
  }),
}
