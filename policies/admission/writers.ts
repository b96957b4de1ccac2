import { CLAIM } from '../../contracts/claim.ts'
import { byCollector, byController, byGitops, byScheduler, byServer, bySystem } from './actors.ts'
import { sameEntries } from './cel.ts'
import type { AdmissionPolicy } from './rule.ts'

const EXTENSIONS = { apiGroup: CLAIM.group, apiVersion: CLAIM.version } as const
const SANDBOXES = { apiGroup: 'agents.x-k8s.io', apiVersion: CLAIM.version } as const
const isUpdate = "request.operation == 'UPDATE'"
const isUnchanged = `(${isUpdate} && object.spec == oldObject.spec)`

const SANDBOX_OBJECTS: AdmissionPolicy = {
  name: 'sandbox-objects',
  scope: 'sandboxes',
  matches: [
    { ...SANDBOXES, resources: ['sandboxes'], operations: ['CREATE', 'UPDATE'] },
    { apiGroup: '', apiVersion: 'v1', resources: ['persistentvolumeclaims'], operations: ['CREATE'] },
  ],
  variables: {},
  rules: [
    {
      name: 'sandbox-maker',
      expression: `${byController} || (${isUpdate} && ${byCollector})`,
      message:
        'only the agent-sandbox controller may create and change Sandboxes and their volumes: create a SandboxClaim instead',
      risk: 'a sandbox could be created without a template, or with a prepared volume',
    },
  ],
}

const all = () => 'true'
const labels = (object: string) => `${object}.metadata.?labels.orValue({})`
const owners = (object: string) => `${object}.metadata.?ownerReferences.orValue([])`

/** A changed label can offer a volume to a future sandbox, and a changed spec can bind it to a prepared disk. */
const VOLUMES: AdmissionPolicy = {
  name: 'sandbox-volumes',
  scope: 'sandboxes',
  matches: [
    {
      apiGroup: '',
      apiVersion: 'v1',
      resources: ['persistentvolumeclaims', 'persistentvolumeclaims/status'],
      operations: ['UPDATE'],
    },
  ],
  variables: {},
  rules: [
    {
      name: 'volume-changer',
      expression: `${byController} || ${byCollector} || ${byScheduler} || ${bySystem('persistent-volume-binder')} || (object.spec == oldObject.spec && ${owners('object')} == ${owners('oldObject')} && ${sameEntries(labels('oldObject'), labels('object'), all)})`,
      message:
        'spec, labels and owners of a volume claim may only be changed by the agent-sandbox controller',
      risk: 'a volume could be given to another sandbox, or bound to a prepared disk',
    },
  ],
}

const STATUS: AdmissionPolicy = {
  name: 'sandbox-status',
  scope: 'sandboxes',
  matches: [
    { ...SANDBOXES, resources: ['sandboxes/status'], operations: ['UPDATE'] },
    { ...EXTENSIONS, resources: ['sandboxclaims/status', 'sandboxwarmpools/status'], operations: ['UPDATE'] },
  ],
  variables: {},
  rules: [
    {
      name: 'status-writer',
      expression: byController,
      message: 'only the agent-sandbox controller may write this status',
      risk: 'a claim could report another sandbox or a wrong address, and the API would send a run there',
    },
  ],
}

const TEMPLATES: AdmissionPolicy = {
  name: 'templates',
  scope: 'sandboxes',
  matches: [
    {
      ...EXTENSIONS,
      resources: ['sandboxtemplates', 'sandboxwarmpools'],
      operations: ['CREATE', 'UPDATE', 'DELETE'],
    },
  ],
  variables: {},
  rules: [
    {
      name: 'template-writer',
      expression: `${byGitops} || ${byCollector} || (${byController} && ${isUnchanged})`,
      message:
        'only the GitOps identity may write templates and pools: edit the environment file and render it',
      risk: 'every new sandbox could be created from a changed template',
    },
  ],
}

const TEMPLATE_SHAPE: AdmissionPolicy = {
  name: 'template-shape',
  scope: 'sandboxes',
  matches: [{ ...EXTENSIONS, resources: ['sandboxtemplates'], operations: ['CREATE', 'UPDATE'] }],
  variables: {},
  rules: [
    {
      name: 'template-network',
      expression:
        "dyn(object.spec).?networkPolicyManagement.orValue('Managed') == 'Unmanaged' && !has(object.spec.networkPolicy)",
      message:
        'spec.networkPolicyManagement must be Unmanaged, and spec.networkPolicy left out: the managed policy opens the internet',
      risk: 'the controller would add its own network policy, which opens the internet; network policies can only add permissions',
    },
    {
      name: 'template-service',
      expression: '!dyn(object.spec).?service.orValue(false)',
      message:
        'spec.service must be left out: a Service would give every sandbox a name and open AgentHost’s port',
      risk: 'AgentHost’s port would be reachable through a Service',
    },
    {
      name: 'template-injection',
      expression:
        "['envVarsInjectionPolicy', 'volumeClaimTemplatesPolicy'].all(f, dyn(object.spec)[?f].orValue('Disallowed') == 'Disallowed')",
      message: 'spec.envVarsInjectionPolicy and volumeClaimTemplatesPolicy must be Disallowed',
      risk: 'a claim could add environment variables and volumes to a sandbox',
    },
  ],
}

const SCALE: AdmissionPolicy = {
  name: 'pool-scale',
  scope: 'sandboxes',
  matches: [{ ...EXTENSIONS, resources: ['sandboxwarmpools/scale'], operations: ['UPDATE'] }],
  variables: {},
  rules: [
    {
      name: 'pool-scaler',
      expression: `${byGitops} || ${bySystem('horizontal-pod-autoscaler')}`,
      message: 'only the GitOps identity and the horizontal autoscaler may scale pools',
      risk: 'other identities could use up capacity and raise costs',
    },
  ],
}

const CONFIGURATION: AdmissionPolicy = {
  name: 'sandbox-configuration',
  scope: 'sandboxes',
  matches: [
    {
      apiGroup: '',
      apiVersion: 'v1',
      resources: ['configmaps', 'resourcequotas', 'limitranges'],
      operations: ['CREATE', 'UPDATE', 'DELETE'],
    },
    {
      apiGroup: 'networking.k8s.io',
      apiVersion: 'v1',
      resources: ['networkpolicies'],
      operations: ['CREATE', 'UPDATE', 'DELETE'],
    },
    {
      apiGroup: 'cilium.io',
      apiVersion: 'v2',
      resources: ['ciliumnetworkpolicies', 'ciliumlocalredirectpolicies', 'ciliumenvoyconfigs'],
      operations: ['CREATE', 'UPDATE', 'DELETE'],
    },
    // With a HorizontalPodAutoscaler, a user could scale pools through the autoscaler's account, which has that right.
    {
      apiGroup: 'autoscaling',
      apiVersion: 'v2',
      resources: ['horizontalpodautoscalers'],
      operations: ['CREATE', 'UPDATE', 'DELETE'],
    },
    {
      apiGroup: 'policy',
      apiVersion: 'v1',
      resources: ['poddisruptionbudgets'],
      operations: ['CREATE', 'UPDATE', 'DELETE'],
    },
  ],
  variables: {},
  rules: [
    {
      name: 'configuration-writer',
      expression: `${byGitops} || ${byCollector} || (${bySystem('root-ca-cert-publisher')} && request.name == 'kube-root-ca.crt')`,
      message:
        'only the GitOps identity may write ConfigMaps, quotas, limits, autoscalers, disruption budgets and network policies of this namespace: edit the environment file and render it',
      risk: 'other identities could replace the keys that AgentHost trusts, the parameters of these rules and the quotas, or open the network with one more policy',
    },
  ],
}

const QUOTA_STATUS: AdmissionPolicy = {
  name: 'quota-status',
  scope: 'sandboxes',
  matches: [{ apiGroup: '', apiVersion: 'v1', resources: ['resourcequotas/status'], operations: ['UPDATE'] }],
  variables: {},
  rules: [
    {
      name: 'quota-counter',
      expression: `${byServer} || ${bySystem('resourcequota-controller')}`,
      message: 'only Kubernetes itself may write the status of quotas, because it counts the usage',
      risk: 'sandboxes could exceed their quota, which Kubernetes enforces from this status',
    },
  ],
}

const WORKLOADS: AdmissionPolicy = {
  name: 'no-workloads',
  scope: 'sandboxes',
  matches: [
    {
      apiGroup: 'apps',
      apiVersion: 'v1',
      resources: ['deployments', 'replicasets', 'statefulsets', 'daemonsets'],
      operations: ['CREATE', 'UPDATE'],
    },
    {
      apiGroup: 'batch',
      apiVersion: 'v1',
      resources: ['jobs', 'cronjobs'],
      operations: ['CREATE', 'UPDATE'],
    },
    {
      apiGroup: '',
      apiVersion: 'v1',
      resources: ['replicationcontrollers', 'podtemplates'],
      operations: ['CREATE', 'UPDATE'],
    },
  ],
  variables: {},
  rules: [
    {
      name: 'no-workloads',
      expression: 'false',
      message: 'this namespace holds only sandboxes: deploy other workloads elsewhere',
      risk: 'pods that are not sandboxes could run here',
    },
  ],
}

export const WRITER_POLICIES: readonly AdmissionPolicy[] = [
  SANDBOX_OBJECTS,
  VOLUMES,
  STATUS,
  TEMPLATES,
  TEMPLATE_SHAPE,
  SCALE,
  CONFIGURATION,
  QUOTA_STATUS,
  WORKLOADS,
]
