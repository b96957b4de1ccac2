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
        'only the break-glass group may use exec, attach, port-forward and proxy here (kubectl cp uses exec): use the API instead',
      risk: 'other identities could control pods of sandboxes and of the control plane; kubectl cp from a hostile sandbox could write files on the machine that runs it',
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
      message: `only the GitOps identity may write the ConfigMap ${PARAMETER_OBJECT.name}: edit the environment file and render it`,
      risk: 'other identities could loosen these rules, or block the creation of all pods',
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
      message: 'only nodes may request tokens of this namespace’s accounts, for the pods that they run',
      risk: 'other identities could get a token of the agents’ Azure identity, or of the API',
    },
    {
      name: 'account-secret',
      expression:
        "request.resource.resource != 'secrets' || dyn(object).?type.orValue('') != 'kubernetes.io/service-account-token'",
      message:
        'a Secret of type kubernetes.io/service-account-token must not be created: it is a token that never expires',
      risk: 'a token that never expires could act as a sandbox or as the API',
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
      message: 'only the GitOps identity may write service accounts of this namespace',
      risk: 'other identities could change the identity of sandboxes, or block their creation',
    },
  ],
}

/** Groups that contain every service account, also the accounts of sandboxes. */
const GROUPS_OF_ALL = ['system:serviceaccounts', 'system:authenticated']
/** Kubernetes itself binds these roles to the groups. */
const ROLES_OF_ALL = [
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
      risk: 'a sandbox could use the Kubernetes API',
    },
    {
      name: 'rights-for-everybody',
      expression: `object.roleRef.name in ${list(ROLES_OF_ALL)} || ${subjects('object')}.all(s, !(s.kind == 'Group' && s.name in ${list(GROUPS_OF_ALL)})) || (${isUpdate} && ${subjects('object')} == ${subjects('oldObject')})`,
      message: `subjects must not name ${GROUPS_OF_ALL.join(' or ')}: the accounts of sandboxes are in these groups, so name the intended subjects`,
      risk: 'a sandbox could use the Kubernetes API',
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
      message: `labels ${SLICE_LABEL} and pod-security.kubernetes.io/* of a slice’s namespace may only be written by the GitOps identity: these policies select namespaces by them`,
      risk: 'a namespace without its label would escape all these rules',
    },
    {
      name: 'namespace-name',
      expression: `!object.metadata.name.matches(variables.ownNamespaces) || variables.sliceLabel in ${labels('object')}`,
      message: `a namespace of this name must carry the label ${SLICE_LABEL}`,
      risk: 'one of these namespaces could be created again without its label, and would escape all these rules',
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
