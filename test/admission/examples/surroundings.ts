import type { AdmissionSpace } from '../space.ts'
import { create, type Draft, type Examples, type RuleExample } from './attempt.ts'
import { anObject } from './writers.ts'

const service = (space: AdmissionSpace, fields: Draft = {}) =>
  anObject(space, {
    apiVersion: 'v1',
    kind: 'Service',
    spec: { selector: { app: 'x' }, ports: [{ port: 80, targetPort: 3000 }], ...fields },
  })
const weakened =
  (fields: Draft) =>
  (space: AdmissionSpace): RuleExample => ({
    passes: create('api', service(space)),
    fails: create('api', service(space, fields)),
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
  'runtime-handler': () => ({
    passes: { ...runtimeClass('kata'), endsLater: true },
    fails: runtimeClass('runc'),
  }),
}
