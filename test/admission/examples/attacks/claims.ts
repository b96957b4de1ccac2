import type { AdmissionSpace } from '../../space.ts'
import { but, create, patch } from '../attempt.ts'
import { aRunClaim, inHours, OLD_CLAIM } from '../claims.ts'
import { type Attacks, EXTENSIONS } from './attack.ts'

const claim = ({ namespace }: AdmissionSpace, subresource?: string) => ({
  apiVersion: EXTENSIONS,
  plural: 'sandboxclaims',
  namespace,
  name: OLD_CLAIM,
  subresource,
})

/** Claims that say more than they may, at once or later. */
export const CLAIM_ATTACKS: Attacks = {
  'a claim’s status': [
    'status-writer',
    (space) => patch('tenant', claim(space, 'status'), { status: { sandbox: { name: 'x' } } }),
  ],
  'a claim for ever': [
    'claim-lifecycle',
    (space) =>
      create(
        'api',
        but(aRunClaim(space), ({ spec }) => delete spec.lifecycle),
      ),
  ],
  'a claim whose end is taken away': [
    'claim-frozen',
    (space) => patch('api', claim(space), { spec: { lifecycle: null } }),
  ],
  'a claim that is to be retained after all': [
    'claim-frozen',
    (space) => patch('api', claim(space), { spec: { lifecycle: { shutdownPolicy: 'Retain' } } }),
  ],
  'a claim that gets env later': [
    'claim-frozen',
    (space) => patch('api', claim(space), { spec: { env: [{ name: 'A', value: '1' }] } }),
  ],
  'labels for the pod of a running claim': [
    'claim-frozen',
    (space) =>
      patch('api', claim(space), {
        spec: { additionalPodMetadata: { labels: { 'agentweaver.io/class': 'command' } } },
      }),
  ],
  'the same by the controller’s own identity': [
    'claim-frozen',
    (space) =>
      patch('controller', claim(space), {
        spec: { additionalPodMetadata: { labels: { 'agentweaver.io/class': 'command' } } },
      }),
  ],
  'another deployment’s claim': [
    'claim-metadata-frozen',
    (space) => patch('api', claim(space), { metadata: { labels: { 'agentweaver.io/deployment': 'd2' } } }),
  ],
  'a pick by a label on a running claim': [
    'claim-metadata-frozen',
    (space) => patch('api', claim(space), { metadata: { labels: { 'agents.x-k8s.io/sandbox-name': 'x' } } }),
  ],
  'a life beyond the maximum, step by step': [
    'claim-max-life-extended',
    (space) => patch('api', claim(space), { spec: { lifecycle: { shutdownTime: inHours(24.2) } } }),
  ],
  'a claim that cannot go, by the API': [
    'claim-finalizers',
    (space) =>
      create(
        'api',
        but(aRunClaim(space), ({ metadata }) => {
          metadata.finalizers = ['example.com/never']
        }),
      ),
  ],
  'a running claim that cannot go': [
    'claim-finalizers-frozen',
    (space) => patch('api', claim(space), { metadata: { finalizers: ['example.com/never'] } }),
  ],
  'a running claim with another owner': [
    'claim-finalizers-frozen',
    (space) =>
      patch('api', claim(space), {
        metadata: { ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'x', uid: 'x' }] },
      }),
  ],
  'a claim by the API of another slice': ['claim-maker', (space) => create('gitops', aRunClaim(space))],
}
