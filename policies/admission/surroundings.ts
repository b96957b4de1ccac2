import { RUNTIME_CLASSES } from '../../contracts/labels.ts'
import { PREVIEW_PORTS } from '../../contracts/ports.ts'
import { byApi, byCollector, byController, byGitops, bySystem } from './actors.ts'
import { text } from './cel.ts'
import type { AdmissionPolicy } from './rule.ts'

/** The controller sets this label on the pod of a claim. Its value is unique per pod. */
const CLAIM_UID_LABEL = 'agents.x-k8s.io/claim-uid'
const { min, max, except } = PREVIEW_PORTS
const target = 'dyn(p).?targetPort.orValue(p.port)'

/** A Service in a sandbox namespace exposes one preview port of one sandbox. */
const SERVICES: AdmissionPolicy = {
  name: 'sandbox-services',
  scope: 'sandboxes',
  matches: [{ apiGroup: '', apiVersion: 'v1', resources: ['services'], operations: ['CREATE', 'UPDATE'] }],
  variables: {},
  rules: [
    {
      name: 'service-writer',
      expression: `${byApi} || ${byController} || ${byGitops} || ${byCollector}`,
      message: 'only the API may write Services of this namespace: open a preview',
      risk: 'a sandbox could get a name and an address without a preview',
    },
    {
      name: 'service-exposure',
      expression:
        "object.spec.?type.orValue('ClusterIP') == 'ClusterIP' && object.spec.?externalIPs.orValue([]).size() == 0",
      message:
        'spec.type must be ClusterIP, and spec.externalIPs must be left out: previews are served through their Gateway',
      risk: 'a sandbox could be reached without passing the Gateway',
    },
    {
      name: 'service-port',
      expression: `object.spec.?ports.orValue([]).all(p, type(${target}) == int && ${target} >= ${min} && ${target} <= ${max} && !(${target} in [${except.join(', ')}]))`,
      message: `spec.ports[].targetPort must be a number from ${min} to ${max} other than ${except.join(', ')}`,
      risk: 'AgentHost’s own port could be reached',
    },
    {
      name: 'service-selector',
      expression: `${text(CLAIM_UID_LABEL)} in object.spec.?selector.orValue({})`,
      message: `spec.selector must name ${CLAIM_UID_LABEL}: a preview belongs to one run`,
      risk: 'a wider selector would match any sandbox of the namespace, so a preview could show another run',
    },
  ],
}

/** Endpoints can be written without a Service and can then name any sandbox or any address. */
const ENDPOINTS: AdmissionPolicy = {
  name: 'sandbox-endpoints',
  scope: 'sandboxes',
  matches: [
    {
      apiGroup: 'discovery.k8s.io',
      apiVersion: 'v1',
      resources: ['endpointslices'],
      operations: ['CREATE', 'UPDATE'],
    },
    { apiGroup: '', apiVersion: 'v1', resources: ['endpoints'], operations: ['CREATE', 'UPDATE'] },
  ],
  variables: {},
  rules: [
    {
      name: 'endpoint-writer',
      expression: [
        byCollector,
        ...['endpointslice-controller', 'endpoint-controller', 'endpointslicemirroring-controller'].map(
          bySystem,
        ),
      ].join(' || '),
      message: 'only Kubernetes itself may write endpoints of this namespace: it derives them from Services',
      risk: 'a preview could reach another run, or AgentHost’s own port',
    },
  ],
}

const ROUTES: AdmissionPolicy = {
  name: 'sandbox-routes',
  scope: 'sandboxes',
  matches: [
    {
      apiGroup: 'networking.k8s.io',
      apiVersion: 'v1',
      resources: ['ingresses'],
      operations: ['CREATE', 'UPDATE'],
    },
    {
      apiGroup: 'gateway.networking.k8s.io',
      apiVersion: '*',
      resources: ['*'],
      operations: ['CREATE', 'UPDATE'],
    },
  ],
  variables: {},
  rules: [
    {
      name: 'route-writer',
      expression: `${byGitops} || ${byCollector} || (request.resource.resource == 'httproutes' && ${byApi}) || (request.operation == 'UPDATE' && dyn(object).spec == dyn(oldObject).spec)`,
      message: 'only the API may write routes of this namespace, and only HTTPRoutes: open a preview',
      risk: 'a sandbox could be reached under a name that its owner did not request, or without passing the Gateway',
    },
  ],
}

/**
 * Cluster scope, because a sandbox can mount any volume that is reserved for its claim or has the storage class of
 * workspaces.
 */
const DISKS: AdmissionPolicy = {
  name: 'sandbox-disks',
  scope: 'cluster',
  matches: [
    { apiGroup: '', apiVersion: 'v1', resources: ['persistentvolumes'], operations: ['CREATE', 'UPDATE'] },
  ],
  variables: {
    isOurs:
      "object.spec.?claimRef.?namespace.orValue('').matches(variables.sandboxNamespaces) || object.spec.?storageClassName.orValue('') == variables.workspaceStorage",
  },
  rules: [
    {
      name: 'volume-source',
      expression: `!variables.isOurs || has(object.spec.csi) || ${bySystem('persistent-volume-binder')} || (request.operation == 'UPDATE' && object.spec == oldObject.spec)`,
      message:
        'spec.csi must be set for a volume of a sandbox: folders of nodes and network shares are not allowed',
      risk: 'a prepared volume could give a sandbox folders of the node',
    },
  ],
}

const handlers = Object.values(RUNTIME_CLASSES)
  .map(({ name, handler }) => `object.metadata.name != ${text(name)} || object.handler == ${text(handler)}`)
  .map((condition) => `(${condition})`)
  .join(' && ')

/**
 * Cluster scope. A RuntimeClass with our name and another handler would make the rule that requires the name useless.
 */
const RUNTIMES: AdmissionPolicy = {
  name: 'runtimes',
  scope: 'cluster',
  matches: [
    {
      apiGroup: 'node.k8s.io',
      apiVersion: 'v1',
      resources: ['runtimeclasses'],
      operations: ['CREATE', 'UPDATE'],
    },
  ],
  variables: {},
  rules: [
    {
      name: 'runtime-handler',
      expression: handlers,
      message: `handler must match the name: ${Object.values(RUNTIME_CLASSES)
        .map(({ name, handler }) => `${name} is ${handler}`)
        .join(', ')}`,
      risk: 'a RuntimeClass with the right name could run sandboxes without isolation',
    },
  ],
}

export const SURROUNDING_POLICIES: readonly AdmissionPolicy[] = [SERVICES, ENDPOINTS, ROUTES, RUNTIMES, DISKS]
