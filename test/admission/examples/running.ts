import type { Actor, AdmissionSpace } from '../space.ts'
import {
  type Attempt,
  connect,
  create,
  type Draft,
  type Examples,
  patch,
  post,
  type RuleExample,
  remove,
} from './attempt.ts'
import { aDebugContainer } from './sandbox-pod.ts'
import { anObject, OLD } from './writers.ts'

const aPod = ({ namespace }: AdmissionSpace, subresource?: string) => ({
  apiVersion: 'v1',
  plural: 'pods',
  namespace,
  name: OLD.pod,
  subresource,
})

interface Patched {
  readonly by: Actor
  readonly subresource?: string
  readonly body: (space: AdmissionSpace) => Draft
}
const patched =
  (fine: Patched, wrong: Patched) =>
  (space: AdmissionSpace): RuleExample => {
    const ask = ({ by, subresource, body }: Patched): Attempt =>
      patch(by, aPod(space, subresource), body(space))
    return { passes: ask(fine), fails: ask(wrong) }
  }
const controllerLabel: Patched = {
  by: 'controller',
  body: () => ({ metadata: { labels: { 'agents.x-k8s.io/claim-uid': 'u' } } }),
}
const podStatus = (body: Draft): Patched => ({ by: 'tenant', subresource: 'status', body: () => body })
const debug = (by: Actor): Patched => ({
  by,
  subresource: 'ephemeralcontainers',
  body: (space) => ({ spec: { ephemeralContainers: [aDebugContainer(space)] } }),
})
const account = (space: AdmissionSpace, parts: Draft) =>
  anObject(space, { apiVersion: 'v1', kind: 'ServiceAccount', ...parts })

function bindingTo(name: string, namespace: string, space: AdmissionSpace) {
  return anObject(space, {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'RoleBinding',
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'view' },
    subjects: [{ kind: 'ServiceAccount', name, namespace }],
  })
}

export const RUNNING_EXAMPLES: Examples = {
  'pod-changer': patched(controllerLabel, { ...controllerLabel, by: 'tenant' }),
  'pod-spec-frozen': patched(controllerLabel, {
    by: 'controller',
    body: () => ({ spec: { activeDeadlineSeconds: 5 } }),
  }),
  'pod-resize': (space) => ({
    passes: patch('controller', aPod(space), controllerLabel.body(space)),
    fails: {
      ...patch('tenant', aPod(space, 'resize'), {
        spec: {
          containers: [
            { name: 'toolbox', resources: { limits: { cpu: '200m' }, requests: { cpu: '200m' } } },
          ],
        },
      }),
      contentType: 'application/strategic-merge-patch+json',
    },
  }),
  'pod-labels-frozen': patched(
    podStatus({ status: { message: 'x' } }),
    podStatus({ metadata: { labels: { 'agentweaver.io/class': 'command' } } }),
  ),
  'pod-annotations-frozen': patched(
    podStatus({ status: { message: 'x' } }),
    podStatus({ metadata: { annotations: { 'k8s.v1.cni.cncf.io/networks': 'other' } } }),
  ),
  'ephemeral-containers': patched(debug('breakGlass'), debug('tenant')),
  shells: (space) => ({
    passes: connect('breakGlass', aPod(space, 'exec')),
    fails: connect('tenant', aPod(space, 'exec')),
  }),
  'parameter-writer': ({ controlPlane }) => {
    const path = {
      apiVersion: 'v1',
      plural: 'configmaps',
      namespace: controlPlane,
      name: 'agentweaver-admission',
    }
    return { passes: remove('gitops', path), fails: remove('tenant', path) }
  },
  'token-minter': (space) => {
    const path = {
      apiVersion: 'v1',
      plural: 'serviceaccounts',
      namespace: space.namespace,
      name: space.parameters.agentAccount,
      subresource: 'token',
    }
    const request = {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { audiences: ['api://AzureADTokenExchange'] },
    }
    return { passes: post('node', path, request), fails: post('tenant', path, request) }
  },
  'account-writer': (space) => ({
    passes: create('gitops', account(space, {})),
    fails: create('tenant', account(space, {})),
  }),
  'account-secret': (space) => {
    const secret = (type: string) => ({
      ...anObject(space, { apiVersion: 'v1', kind: 'Secret', type }),
      metadata: {
        name: 'example',
        namespace: space.namespace,
        annotations: { 'kubernetes.io/service-account.name': space.parameters.agentAccount },
      },
    })
    return {
      passes: create('tenant', secret('Opaque')),
      fails: create('tenant', secret('kubernetes.io/service-account-token')),
    }
  },
  'sandbox-rights': (space) => ({
    passes: create('gitops', bindingTo('agentweaver-api', 'agentweaver', space)),
    fails: create('gitops', bindingTo(space.parameters.agentAccount, space.namespace, space)),
  }),
  'rights-for-everybody': () => {
    const binding = (role: string) =>
      create('gitops', {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'ClusterRoleBinding',
        metadata: { name: 'example' },
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: role },
        subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'Group', name: 'system:serviceaccounts' }],
      })
    return { passes: binding('system:service-account-issuer-discovery'), fails: binding('view') }
  },
  'namespace-label': (space) => {
    const path = { apiVersion: 'v1', plural: 'namespaces', name: space.namespace }
    const unlabel = { metadata: { labels: { [space.sliceLabel]: null } } }
    return {
      passes: patch('tenant', path, { metadata: { annotations: { team: 'a' } } }),
      fails: patch('tenant', path, unlabel),
    }
  },
  'namespace-name': (space) => {
    const twin = (labels: Draft) => ({
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name: space.namespace.replace('-sandboxes', '-twin-sandboxes'), labels },
    })
    return {
      passes: create('gitops', twin({ [space.sliceLabel]: 'base' })),
      fails: create('gitops', twin({})),
    }
  },
}
