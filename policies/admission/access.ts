import { SLICE_LABEL } from '../../contracts/labels.ts'
import { byBreakGlass, byCollector, byGitops, byNode, bySystem } from './actors.ts'
import { list, sameEntries, text } from './cel.ts'
import { PARAMETER_OBJECT } from './parameters.ts'
import type { AdmissionPolicy } from './rule.ts'

const CORE = { apiGroup: '', apiVersion: 'v1' } as const

const SHELLS: AdmissionPolicy = {
  name: 'shells',
  scope: 'slice',
  matches: [
    {
      ...CORE,
      resources: ['pods/exec', 'pods/attach', 'pods/portforward', 'pods/proxy', 'services/proxy'],
      operations: ['CONNECT'],
    },
  ],
  variables: {},
  rules: [
    {
      name: 'shells',
      expression: byBreakGlass,
      message:
        'only the break-glass group may exec, attach, forward ports or proxy here (kubectl cp is exec): ask the API',
      protects:
        'sandboxes and control plane from everybody who may touch pods; a person’s machine from what a sandbox answers to kubectl cp',
    },
  ],
}

/**
 * Applies in every namespace of a slice. Without the parameter object, the binding of a policy rejects every pod in the
 * namespace.
 */
const PARAMETERS: AdmissionPolicy = {
  name: 'parameters',
  scope: 'slice',
  matches: [{ ...CORE, resources: ['configmaps'], operations: ['CREATE', 'UPDATE', 'DELETE'] }],
  variables: {
    subject: "request.operation == 'DELETE' ? oldObject : object",
  },
  rules: [
    {
      name: 'parameter-writer',
      expression: `variables.subject.metadata.?name.orValue('') != ${text(PARAMETER_OBJECT.name)} || ${byGitops} || ${byCollector}`,
      message: `only the GitOps identity writes the ConfigMap ${PARAMETER_OBJECT.name}: change the environment file and let it be rendered`,
      protects: 'what these rules permit, and that pods can be made at all',
    },
  ],
}

/** Applies in the control plane too: a token of the API's service account grants all rights of the API. */
const TOKENS: AdmissionPolicy = {
  name: 'tokens',
  scope: 'slice',
  matches: [
    { ...CORE, resources: ['serviceaccounts/token'], operations: ['CREATE'] },
    { ...CORE, resources: ['secrets'], operations: ['CREATE', 'UPDATE'] },
  ],
  variables: {},
  rules: [
    {
      name: 'token-minter',
      expression: `request.resource.resource != 'serviceaccounts' || ${byNode}`,
      message: 'only a node asks for tokens of this namespace’s accounts, for the pods that it runs',
      protects: 'the Azure identity of agents, and the API’s own, from whoever may ask for tokens',
    },
    {
      name: 'account-secret',
      expression:
        "request.resource.resource != 'secrets' || dyn(object).?type.orValue('') != 'kubernetes.io/service-account-token'",
      message:
        'a Secret of type kubernetes.io/service-account-token must not be made: it is a token that never expires',
      protects: 'the identity of sandboxes and of the API',
    },
  ],
}

const ACCOUNTS: AdmissionPolicy = {
  name: 'accounts',
  scope: 'sandboxes',
  matches: [{ ...CORE, resources: ['serviceaccounts'], operations: ['CREATE', 'UPDATE', 'DELETE'] }],
  variables: {},
  rules: [
    {
      name: 'account-writer',
      expression: `${byGitops} || ${byCollector} || ${bySystem('service-account-controller')}`,
      message: 'only the GitOps identity writes service accounts of this namespace',
      protects: 'which identity a sandbox has, and that sandboxes can be made',
    },
  ],
}

/**
 * Groups that contain every service account, including those of sandboxes. Kubernetes itself binds the roles in
 * `FOR_EVERYBODY` to them.
 */
const EVERYBODY = ['system:serviceaccounts', 'system:authenticated']
const FOR_EVERYBODY = [
  'system:basic-user',
  'system:discovery',
  'system:public-info-viewer',
  'system:service-account-issuer-discovery',
]

const isUpdate = "request.operation == 'UPDATE'"
const subjects = (object: string) => `${object}.?subjects.orValue([])`

const RIGHTS: AdmissionPolicy = {
  name: 'sandbox-rights',
  scope: 'cluster',
  matches: [
    {
      apiGroup: 'rbac.authorization.k8s.io',
      apiVersion: 'v1',
      resources: ['rolebindings', 'clusterrolebindings'],
      operations: ['CREATE', 'UPDATE'],
    },
  ],
  variables: {},
  rules: [
    {
      name: 'sandbox-rights',
      expression:
        "object.?subjects.orValue([]).all(s, !(s.kind == 'ServiceAccount' && s.?namespace.orValue('').matches(variables.sandboxNamespaces) || s.name.startsWith('system:serviceaccount:') && s.name.split(':')[2].matches(variables.sandboxNamespaces) || s.name.startsWith('system:serviceaccounts:') && s.name.split(':')[2].matches(variables.sandboxNamespaces)))",
      message:
        'subjects must not name accounts of a sandbox namespace: a sandbox has no rights in the cluster',
      protects: 'the Kubernetes API',
    },
    {
      name: 'rights-for-everybody',
      expression: `object.roleRef.name in ${list(FOR_EVERYBODY)} || ${subjects('object')}.all(s, !(s.kind == 'Group' && s.name in ${list(EVERYBODY)})) || (${isUpdate} && ${subjects('object')} == ${subjects('oldObject')})`,
      message: `subjects must not name ${EVERYBODY.join(' or ')}: the accounts of sandboxes are in these groups, so name who is meant`,
      protects: 'the Kubernetes API',
    },
  ],
}

const labels = (object: string) => `${object}.metadata.?labels.orValue({})`
const isGuarded = (key: string) =>
  `${key} == variables.sliceLabel || ${key}.startsWith('pod-security.kubernetes.io/')`

/**
 * Has no namespace selector. A selector is matched against the labels after the change, so an update that removes the
 * label would escape the policy.
 */
const NAMESPACES: AdmissionPolicy = {
  name: 'namespaces',
  scope: 'cluster',
  // The `status` and `finalize` subresources can change labels as well.
  matches: [
    {
      ...CORE,
      resources: ['namespaces', 'namespaces/status', 'namespaces/finalize'],
      operations: ['CREATE', 'UPDATE'],
    },
  ],
  variables: {
    isSlice: `variables.sliceLabel in ${labels('object')} || (${isUpdate} && variables.sliceLabel in ${labels('oldObject')})`,
  },
  rules: [
    {
      name: 'namespace-label',
      expression: `!variables.isSlice || ${byGitops} || ${byCollector} || (${isUpdate} && ${sameEntries(labels('oldObject'), labels('object'), isGuarded)})`,
      message: `labels ${SLICE_LABEL} and pod-security.kubernetes.io/* of a slice’s namespace may only be written by the GitOps identity: these policies select by them`,
      protects: 'that the rules hold: without its label a namespace is under none of them',
    },
    {
      name: 'namespace-name',
      expression: `!object.metadata.name.matches(variables.ownNamespaces) || variables.sliceLabel in ${labels('object')}`,
      message: `a namespace of this name must carry the label ${SLICE_LABEL}`,
      protects: 'against a namespace of ours that is made anew without its label',
    },
  ],
}

export const ACCESS_POLICIES: readonly AdmissionPolicy[] = [
  SHELLS,
  PARAMETERS,
  TOKENS,
  ACCOUNTS,
  RIGHTS,
  NAMESPACES,
]
