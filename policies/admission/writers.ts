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
        'only the agent-sandbox controller makes and changes Sandboxes and their volumes: ask for one by a SandboxClaim',
      protects: 'that every sandbox comes from a template, and that no volume was prepared for it',
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
      protects: 'volumes from being handed to another sandbox, or taken from a disk that somebody prepared',
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
      message: 'only the agent-sandbox controller writes this status',
      protects: 'the identity chain: which sandbox and which address a claim is told',
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
        'only the GitOps identity writes templates and pools: change the environment file and let it be rendered',
      protects: 'what every sandbox is made from',
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
        'spec.networkPolicyManagement must be Unmanaged, without networkPolicy: the managed policy opens the internet',
      protects: 'the network policies of the tree, to which another could only add',
    },
    {
      name: 'template-service',
      expression: '!dyn(object.spec).?service.orValue(false)',
      message:
        'spec.service must be left out: a Service would give every sandbox a name and open AgentHost’s port',
      protects: 'AgentHost’s own port',
    },
    {
      name: 'template-injection',
      expression:
        "['envVarsInjectionPolicy', 'volumeClaimTemplatesPolicy'].all(f, dyn(object.spec)[?f].orValue('Disallowed') == 'Disallowed')",
      message: 'spec.envVarsInjectionPolicy and volumeClaimTemplatesPolicy must be Disallowed',
      protects: 'sandboxes from what a claim could add',
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
      message: 'only the GitOps identity and the horizontal autoscaler scale pools',
      protects: 'capacity and cost',
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
        'only the GitOps identity writes ConfigMaps, quotas, limits, autoscalers, disruption budgets and network policies of this namespace: change the environment file and let it be rendered',
      protects:
        'the keys that AgentHost trusts, the parameters of these rules, how much sandboxes may take, and the network: policies add up, so one can open all',
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
      message: 'only Kubernetes itself writes the status of quotas: what is used is counted by it',
      protects: 'how much sandboxes may take: quotas are enforced by their status',
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
      message: 'this namespace holds sandboxes and nothing else: put workloads elsewhere',
      protects: 'that every pod here is a sandbox',
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
