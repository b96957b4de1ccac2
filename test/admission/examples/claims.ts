import type { KubeObject } from '../../../devcluster/client/kube-object.ts'
import type { AdmissionSpace } from '../space.ts'
import { but, create, type Draft, type Examples, patch, type RuleExample } from './attempt.ts'

const CLAIMS = { apiVersion: 'extensions.agents.x-k8s.io/v1beta1', plural: 'sandboxclaims' }
/** The claim that updates are tried on. */
export const OLD_CLAIM = 'old-claim'

export function inHours(hours: number): string {
  return new Date(Date.now() + hours * 3_600_000).toISOString().replace(/\.\d+Z$/, 'Z')
}

/** A claim as the API sends it. */
export function aRunClaim({ namespace, parameters }: AdmissionSpace, name = 'agent-0123'): KubeObject {
  return {
    apiVersion: CLAIMS.apiVersion,
    kind: 'SandboxClaim',
    metadata: {
      name,
      namespace,
      labels: { 'agentweaver.io/deployment': 'd1', 'agentweaver.io/kind': 'agent' },
    },
    spec: {
      warmPoolRef: { name: parameters.pools.split(',')[0] },
      lifecycle: { shutdownTime: inHours(2), ttlSecondsAfterFinished: 600, shutdownPolicy: 'Delete' },
    },
  }
}

const weakened =
  (weaken: (claim: Draft) => void) =>
  (space: AdmissionSpace): RuleExample => ({
    passes: create('api', aRunClaim(space)),
    fails: create('api', but(aRunClaim(space), weaken)),
  })
const inSpec = (fields: Draft) => weakened(({ spec }) => Object.assign(spec, fields))

const changed =
  (fine: Draft, wrong: Draft) =>
  ({ namespace }: AdmissionSpace): RuleExample => ({
    passes: patch('api', { ...CLAIMS, namespace, name: OLD_CLAIM }, fine),
    fails: patch('api', { ...CLAIMS, namespace, name: OLD_CLAIM }, wrong),
  })
const PICK = 'agents.x-k8s.io/sandbox-name'
const longer = () => ({ spec: { lifecycle: { shutdownTime: inHours(3) } } })

export const CLAIM_EXAMPLES: Examples = {
  'claim-maker': (space) => ({
    passes: create('api', aRunClaim(space)),
    fails: create('gitops', aRunClaim(space)),
  }),
  'claim-pool': inSpec({ warmPoolRef: { name: 'lax' } }),
  'claim-env': inSpec({ env: [{ name: 'TOKEN', value: 'secret' }] }),
  'claim-volumes': inSpec({
    volumeClaimTemplates: [
      {
        metadata: { name: 'extra' },
        spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Mi' } } },
      },
    ],
  }),
  'claim-pod-metadata': inSpec({ additionalPodMetadata: { labels: { 'sandbox.users.io/run': 'r1' } } }),
  'claim-pick-annotation': weakened(({ metadata }) => {
    metadata.annotations = { [PICK]: 'agentweaver-agent-abcde' }
  }),
  'claim-pick-label': weakened(({ metadata }) => {
    metadata.labels[PICK] = 'agentweaver-agent-abcde'
  }),
  'claim-reserved-metadata': weakened(({ metadata }) => {
    metadata.annotations = { 'agents.x-k8s.io/claim-first-ready-at': 'unknown' }
  }),
  'claim-finalizers': weakened(({ metadata }) => {
    metadata.finalizers = ['example.com/never']
  }),
  'claim-lifecycle': weakened(({ spec }) => delete spec.lifecycle.shutdownTime),
  'claim-shutdown-policy': weakened(({ spec }) => {
    spec.lifecycle.shutdownPolicy = 'Retain'
  }),
  'claim-max-life': weakened(({ spec }) => {
    spec.lifecycle.shutdownTime = inHours(25)
  }),
  'claim-changer': (space) => ({
    passes: patch('api', { ...CLAIMS, namespace: space.namespace, name: OLD_CLAIM }, longer()),
    fails: patch('tenant', { ...CLAIMS, namespace: space.namespace, name: OLD_CLAIM }, longer()),
  }),
  'claim-frozen': changed(longer(), { spec: { warmPoolRef: { name: 'agentweaver-command' } } }),
  'claim-extension': changed(longer(), { spec: { lifecycle: { shutdownTime: inHours(1) } } }),
  'claim-max-life-extended': changed(longer(), { spec: { lifecycle: { shutdownTime: inHours(25) } } }),
  'claim-metadata-frozen': changed(longer(), {
    metadata: { annotations: { [PICK]: 'agentweaver-agent-abcde' } },
  }),
  'claim-finalizers-frozen': changed(longer(), { metadata: { finalizers: ['example.com/never'] } }),
}
