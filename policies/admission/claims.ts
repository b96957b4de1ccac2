import { CLAIM } from '../../contracts/claim.ts'
import { byApi, byCollector, byController } from './actors.ts'
import { changedKeys, list, listed, sameEntries, text } from './cel.ts'
import type { AdmissionPolicy, AdmissionRule } from './rule.ts'

const EXTENSIONS = { apiGroup: CLAIM.group, apiVersion: CLAIM.version } as const
/** An annotation or label with this name lets a claim choose a specific sandbox of the pool. */
const PICK = 'agents.x-k8s.io/sandbox-name'
/** Domains of the keys that Kubernetes or the controller interprets. */
const RESERVED = ['kubernetes.io', 'k8s.io', 'x-k8s.io']
const OURS = 'agentweaver.io'

const metadata = (object: string, field: string) => `${object}.metadata.?${field}.orValue({})`
const domain = (key: string) => `${key}.split('/')[0]`
const isOf = (key: string, names: readonly string[]) =>
  `(${key}.contains('/') && ${list(names)}.exists(d, ${domain(key)} == d || ${domain(key)}.endsWith('.' + d)))`
const isEmpty = (field: string) => `dyn(object.spec).?${field}.orValue([]).size() == 0`

const LIFECYCLE: readonly AdmissionRule[] = [
  {
    name: 'claim-lifecycle',
    expression: 'has(object.spec.lifecycle) && has(object.spec.lifecycle.shutdownTime)',
    message: 'spec.lifecycle.shutdownTime must be set: a claim without it lives for ever',
    protects: 'that every sandbox ends, also when nobody ends it',
  },
  {
    name: 'claim-shutdown-policy',
    expression: "object.spec.?lifecycle.?shutdownPolicy.orValue('') == 'Delete'",
    message: 'spec.lifecycle.shutdownPolicy must be Delete: Retain keeps records of sandboxes that are gone',
    protects: 'that nothing is left behind',
  },
]

const SHUTDOWN = 'timestamp(object.spec.lifecycle.shutdownTime)'
const maxLife = (name: string, isAsked: string): AdmissionRule => ({
  name,
  expression: `${isAsked} || !has(object.spec.lifecycle) || !has(object.spec.lifecycle.shutdownTime) || ${SHUTDOWN} <= timestamp(object.metadata.creationTimestamp) + duration(params.data.maxLife)`,
  message:
    'spec.lifecycle.shutdownTime lies too far ahead: a claim may live no longer than the environment’s maximum after its creation',
  protects: 'that every sandbox ends',
})

const pick = (field: 'annotations' | 'labels'): AdmissionRule => ({
  name: `claim-pick-${field === 'labels' ? 'label' : 'annotation'}`,
  expression: `${byController} || !(${text(PICK)} in ${metadata('object', field)})`,
  message: `metadata.${field}["${PICK}"] must be left out: the controller chooses the sandbox`,
  protects: 'the identity chain: nobody chooses whose sandbox he gets',
})

/** Fields that delay or cause the deletion of a claim, apart from its lifecycle. */
const HELD = ['finalizers', 'ownerReferences']
const held = (object: string, field: string) => `${object}.metadata.?${field}.orValue([])`

const CREATION: AdmissionPolicy = {
  name: 'claims',
  scope: 'sandboxes',
  matches: [{ ...EXTENSIONS, resources: [CLAIM.plural], operations: ['CREATE'] }],
  variables: {},
  rules: [
    {
      name: 'claim-maker',
      expression: byApi,
      message: 'only the API’s service account creates claims: start a run',
      protects: 'that every sandbox has a run, an owner and an audit record',
    },
    {
      name: 'claim-pool',
      expression: `object.spec.warmPoolRef.name in ${listed('pools')}`,
      message: 'spec.warmPoolRef.name must be one of the environment’s pools',
      protects: 'against pools of laxer templates',
    },
    {
      name: 'claim-env',
      expression: isEmpty('env'),
      message:
        'spec.env must be left out: it forces a cold start and stands in the clear; values of a run travel by /configure',
      protects: 'secrets from being written into objects',
    },
    {
      name: 'claim-volumes',
      expression: isEmpty('volumeClaimTemplates'),
      message: 'spec.volumeClaimTemplates must be left out: volumes are the template’s',
      protects: 'storage, and warm starts',
    },
    {
      name: 'claim-pod-metadata',
      expression:
        'dyn(object.spec).?additionalPodMetadata.?labels.orValue({}).size() == 0 && dyn(object.spec).?additionalPodMetadata.?annotations.orValue({}).size() == 0',
      message: 'spec.additionalPodMetadata must be empty: policies select pods by their labels',
      protects: 'the labels that network policies select',
    },
    pick('annotations'),
    pick('labels'),
    {
      name: 'claim-reserved-metadata',
      expression: `['labels', 'annotations'].all(f, dyn(object.metadata)[?f].orValue({}).all(k, k == ${text(PICK)} || !${isOf('k', RESERVED)}))`,
      offenders: `['labels', 'annotations'].map(f, dyn(object.metadata)[?f].orValue({}).filter(k, ${isOf('k', RESERVED)}).map(k, 'metadata.' + f + '.' + string(k)).join(', ')).filter(t, t != '')`,
      message: 'is reserved to Kubernetes and the controller: remove it',
      protects: 'what the controller records on claims',
    },
    {
      name: 'claim-finalizers',
      expression: HELD.map((field) => `${held('object', field)}.size() == 0`).join(' && '),
      message: 'metadata.finalizers and metadata.ownerReferences must be left out',
      protects: 'that every sandbox ends: it would stay as long as its claim cannot go',
    },
    ...LIFECYCLE,
    maxLife('claim-max-life', 'false'),
  ],
}

const isSame = (field: string) =>
  sameEntries(metadata('oldObject', field), metadata('object', field), (key) =>
    isOf(key, [...RESERVED, OURS]),
  )

/** Compares every field except the two that may change, so fields of later versions are compared too. */
const isSameSpec = sameEntries(
  'dyn(oldObject.spec)',
  'dyn(object.spec)',
  (key) => `!(${key} in ['lifecycle', 'additionalPodMetadata'])`,
)
const isSameLifecycle = sameEntries(
  'dyn(oldObject.spec).?lifecycle.orValue({})',
  'dyn(object.spec).?lifecycle.orValue({})',
  (key) => `${key} != 'shutdownTime'`,
)

const CHANGES: AdmissionPolicy = {
  name: 'claim-changes',
  scope: 'sandboxes',
  matches: [{ ...EXTENSIONS, resources: [CLAIM.plural], operations: ['UPDATE'] }],
  variables: {
    /** `{}` is what the controller writes when it binds a warm sandbox. */
    metadataBefore: 'dyn(oldObject.spec).?additionalPodMetadata.orValue({})',
    metadataAfter: 'dyn(object.spec).?additionalPodMetadata.orValue({})',
  },
  rules: [
    {
      name: 'claim-changer',
      expression: `${byApi} || ${byController} || ${byCollector}`,
      message: 'only the API’s service account and the controller change claims',
      protects: 'running sandboxes from being prolonged, ended or moved by others',
    },
    {
      name: 'claim-frozen',
      expression: `${isSameSpec} && ${isSameLifecycle} && variables.metadataBefore == variables.metadataAfter`,
      offenders: `${changedKeys('dyn(oldObject.spec)', 'dyn(object.spec)')}.map(k, 'spec.' + string(k))`,
      message:
        'cannot change in a claim, but for spec.lifecycle.shutdownTime: another pool would move the running sandbox under another template’s network policies',
      protects: 'that a running sandbox stays under the policies of its template',
    },
    {
      name: 'claim-extension',
      expression: `!has(oldObject.spec.lifecycle) || !has(oldObject.spec.lifecycle.shutdownTime) || has(object.spec.lifecycle.shutdownTime) && ${SHUTDOWN} >= timestamp(oldObject.spec.lifecycle.shutdownTime)`,
      message: 'spec.lifecycle.shutdownTime may only grow: to end a sandbox delete its claim',
      protects: 'runs from being cut short',
    },
    maxLife(
      'claim-max-life-extended',
      'dyn(object.spec).?lifecycle.?shutdownTime == dyn(oldObject.spec).?lifecycle.?shutdownTime',
    ),
    {
      name: 'claim-metadata-frozen',
      expression: `${byController} || (${isSame('labels')} && ${isSame('annotations')})`,
      message: `labels and annotations of ${[...RESERVED, OURS].join(', ')} cannot change: the controller and the reaper go by them`,
      protects: 'the controller’s choice of the sandbox, and which deployment a claim belongs to',
    },
    {
      name: 'claim-finalizers-frozen',
      expression: `${byController} || ${byCollector} || (${HELD.map((field) => `${held('object', field)} == ${held('oldObject', field)}`).join(' && ')})`,
      message: 'metadata.finalizers and metadata.ownerReferences cannot change',
      protects: 'that every sandbox ends: it would stay as long as its claim cannot go',
    },
  ],
}

export const CLAIM_POLICIES: readonly AdmissionPolicy[] = [CREATION, CHANGES]
