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
      message: 'only the API writes Services of this namespace: open a preview',
      protects: 'against names and addresses for sandboxes that nobody asked for',
    },
    {
      name: 'service-exposure',
      expression:
        "object.spec.?type.orValue('ClusterIP') == 'ClusterIP' && object.spec.?externalIPs.orValue([]).size() == 0",
      message:
        'spec.type must be ClusterIP, and spec.externalIPs must be left out: previews are reached through their Gateway',
      protects: 'sandboxes from being reached past the Gateway',
    },
    {
      name: 'service-port',
      expression: `object.spec.?ports.orValue([]).all(p, type(${target}) == int && ${target} >= ${min} && ${target} <= ${max} && !(${target} in [${except.join(', ')}]))`,
      message: `spec.ports[].targetPort must be a number from ${min} to ${max} other than ${except.join(', ')}`,
      protects: 'AgentHost’s own port',
    },
    {
      name: 'service-selector',
      expression: `${text(CLAIM_UID_LABEL)} in object.spec.?selector.orValue({})`,
      message: `spec.selector must name ${CLAIM_UID_LABEL}: a preview is of one run`,
      protects:
        'runs from being reached by another’s preview: a wider selector takes any sandbox of the namespace',
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
      message: 'only Kubernetes itself writes endpoints of this namespace: they follow from Services',
      protects: 'runs from being reached by another’s preview, and AgentHost’s own port',
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
      message: 'only the API writes HTTPRoutes of this namespace, and nobody another way in: open a preview',
      protects:
        'sandboxes from being reached by a name that nobody asked for, and past the Gateway of previews',
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
        'spec.csi must be set for a volume of a sandbox: folders of nodes and shares of networks are no disk of its own',
      protects: 'the node’s folders from being mounted by way of a volume that was prepared',
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
      message: `handler must be what the name promises: ${Object.values(RUNTIME_CLASSES)
        .map(({ name, handler }) => `${name} is ${handler}`)
        .join(', ')}`,
      protects: 'the boundary from being deleted and made anew without one',
    },
  ],
}

export const SURROUNDING_POLICIES: readonly AdmissionPolicy[] = [SERVICES, ENDPOINTS, ROUTES, RUNTIMES, DISKS]
