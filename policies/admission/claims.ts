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
    message: 'spec.lifecycle.shutdownTime must be set: a claim without it never ends',
    risk: 'a sandbox would run without end if nothing deletes its claim',
  },
  {
    name: 'claim-shutdown-policy',
    expression: "object.spec.?lifecycle.?shutdownPolicy.orValue('') == 'Delete'",
    message: 'spec.lifecycle.shutdownPolicy must be Delete: Retain keeps objects of ended sandboxes',
    risk: 'objects of ended sandboxes would stay in the cluster',
  },
]

const SHUTDOWN = 'timestamp(object.spec.lifecycle.shutdownTime)'
const maxLife = (name: string, isAsked: string): AdmissionRule => ({
  name,
  expression: `${isAsked} || !has(object.spec.lifecycle) || !has(object.spec.lifecycle.shutdownTime) || ${SHUTDOWN} <= timestamp(object.metadata.creationTimestamp) + duration(params.data.maxLife)`,
  message:
    'spec.lifecycle.shutdownTime must not exceed the creation time plus the environment’s maximum life of a claim',
  risk: 'a sandbox could run for longer than the environment allows',
})

const pick = (field: 'annotations' | 'labels'): AdmissionRule => ({
  name: `claim-pick-${field === 'labels' ? 'label' : 'annotation'}`,
  expression: `${byController} || !(${text(PICK)} in ${metadata('object', field)})`,
  message: `metadata.${field}["${PICK}"] must be left out: the controller chooses the sandbox`,
  risk: 'a caller could choose its sandbox, which breaks the identity chain',
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
      message: 'only the API’s service account may create claims: start a run',
      risk: 'a sandbox could exist without a run, an owner and an audit record',
    },
    {
      name: 'claim-pool',
      expression: `object.spec.warmPoolRef.name in ${listed('pools')}`,
      message: 'spec.warmPoolRef.name must be one of the environment’s pools',
      risk: 'a claim could use a pool with a weaker template',
    },
    {
      name: 'claim-env',
      expression: isEmpty('env'),
      message:
        'spec.env must be left out: it forces a cold start, and everyone who may read the claim can read it; the API passes values of a run through /configure',
      risk: 'secrets could be stored in objects in plain text',
    },
    {
      name: 'claim-volumes',
      expression: isEmpty('volumeClaimTemplates'),
      message: 'spec.volumeClaimTemplates must be left out: the template defines the volumes',
      risk: 'a claim could take additional storage, and its sandbox would start cold',
    },
    {
      name: 'claim-pod-metadata',
      expression:
        'dyn(object.spec).?additionalPodMetadata.?labels.orValue({}).size() == 0 && dyn(object.spec).?additionalPodMetadata.?annotations.orValue({}).size() == 0',
      message: 'spec.additionalPodMetadata must be empty: policies select pods by their labels',
      risk: 'a claim could change the labels that network policies select',
    },
    pick('annotations'),
    pick('labels'),
    {
      name: 'claim-reserved-metadata',
      expression: `['labels', 'annotations'].all(f, dyn(object.metadata)[?f].orValue({}).all(k, k == ${text(PICK)} || !${isOf('k', RESERVED)}))`,
      offenders: `['labels', 'annotations'].map(f, dyn(object.metadata)[?f].orValue({}).filter(k, ${isOf('k', RESERVED)}).map(k, 'metadata.' + f + '.' + string(k)).join(', ')).filter(t, t != '')`,
      message: 'is reserved for Kubernetes and the controller: remove it',
      risk: 'other identities could forge what the controller records on claims',
    },
    {
      name: 'claim-finalizers',
      expression: HELD.map((field) => `${held('object', field)}.size() == 0`).join(' && '),
      message: 'metadata.finalizers and metadata.ownerReferences must be left out',
      risk: 'the claim could stay when it is deleted, and its sandbox with it',
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
      message: 'only the API’s service account and the controller may change claims',
      risk: 'other identities could extend, end or move running sandboxes',
    },
    {
      name: 'claim-frozen',
      expression: `${isSameSpec} && ${isSameLifecycle} && variables.metadataBefore == variables.metadataAfter`,
      offenders: `${changedKeys('dyn(oldObject.spec)', 'dyn(object.spec)')}.map(k, 'spec.' + string(k))`,
      message:
        'cannot change in a claim; only spec.lifecycle.shutdownTime can. Another pool would move the running sandbox to the network policies of another template',
      risk: 'a running sandbox could leave the network policies of its template',
    },
    {
      name: 'claim-extension',
      expression: `!has(oldObject.spec.lifecycle) || !has(oldObject.spec.lifecycle.shutdownTime) || has(object.spec.lifecycle.shutdownTime) && ${SHUTDOWN} >= timestamp(oldObject.spec.lifecycle.shutdownTime)`,
      message:
        'spec.lifecycle.shutdownTime may only move to a later time: delete the claim to end its sandbox',
      risk: 'a run could be cut short',
    },
    maxLife(
      'claim-max-life-extended',
      'dyn(object.spec).?lifecycle.?shutdownTime == dyn(oldObject.spec).?lifecycle.?shutdownTime',
    ),
    {
      name: 'claim-metadata-frozen',
      expression: `${byController} || (${isSame('labels')} && ${isSame('annotations')})`,
      message: `labels and annotations of ${[...RESERVED, OURS].join(', ')} cannot change: the controller and the reaper rely on them`,
      risk: 'the controller’s choice of the sandbox, or the deployment that owns the claim, could be changed',
    },
    {
      name: 'claim-finalizers-frozen',
      expression: `${byController} || ${byCollector} || (${HELD.map((field) => `${held('object', field)} == ${held('oldObject', field)}`).join(' && ')})`,
      message: 'metadata.finalizers and metadata.ownerReferences cannot change',
      risk: 'the claim could stay when it is deleted, and its sandbox with it',
    },
  ],
}

export const CLAIM_POLICIES: readonly AdmissionPolicy[] = [CREATION, CHANGES]
