import { CLAIM } from '../../../contracts/claim.ts'
import {
  createKubeClient,
  KubeApiError,
  type KubeClient,
  type RawRequest,
} from '../../../devcluster/client/kube-client.ts'
import { untilAllowed } from './until-allowed.ts'

/** One request of an insider. If the request is not rejected, it changes nothing. */
export type InsideRequest = Omit<RawRequest, 'timeoutMs'>

export interface Insider {
  ask(question: InsideRequest): Promise<{ readonly status: number; readonly message: string }>
  close(): Promise<void>
}

const RBAC = 'rbac.authorization.k8s.io'
const SANDBOXES = 'agentweaver-sandboxes'
const CONTROL_PLANE = 'agentweaver'
const CORE = `/api/v1/namespaces/${SANDBOXES}`
const EXTENSIONS = `/apis/${CLAIM.group}/${CLAIM.version}/namespaces/${SANDBOXES}`
const DRY = '?dryRun=All&fieldValidation=Strict'
const MERGE_PATCH = 'application/merge-patch+json'

/** A service account with exactly its RBAC rights. */
export function asAccount({ connection }: KubeClient, namespace: string, account: string): Insider {
  const user = `system:serviceaccount:${namespace}:${account}`
  const groups = ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated']
  const client = createKubeClient({ ...connection, impersonate: { user, groups } })
  return {
    async ask(question) {
      try {
        await client.raw(question)
        return { status: 200, message: '' }
      } catch (error) {
        if (!(error instanceof KubeApiError)) throw error
        return { status: error.status, message: error.message }
      }
    },
    close: () => client.close(),
  }
}

/** A tenant with administrator rights in the sandbox namespace, granted by RBAC alone. */
export async function asTenant(client: KubeClient): Promise<Insider> {
  const [account, namespace] = ['tenant', 'default']
  await client.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: account, namespace } })
  await client.create({
    apiVersion: `${RBAC}/v1`,
    kind: 'RoleBinding',
    metadata: { name: account, namespace: SANDBOXES },
    roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ kind: 'ServiceAccount', name: account, namespace }],
  })
  const rules = [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }]
  await untilAllowed(client, { namespace, name: account }, { namespace: SANDBOXES, rules })
  return asAccount(client, namespace, account)
}

type Kind = readonly [apiVersion: string, kind: string]
type Fields = Readonly<Record<string, unknown>> & { readonly metadata?: object | undefined }

const post = (url: string, [apiVersion, kind]: Kind, { metadata, ...rest }: Fields): InsideRequest => ({
  method: 'POST',
  url: url + DRY,
  body: { apiVersion, kind, metadata: { name: 'inside', ...metadata }, ...rest },
})
const patch = (url: string, body: object): InsideRequest => ({
  method: 'PATCH',
  url: url + DRY,
  body,
  contentType: MERGE_PATCH,
})
const remove = (url: string): InsideRequest => ({ method: 'DELETE', url: url + DRY })

const inOneHour = () => new Date(Date.now() + 3_600_000).toISOString().replace(/\.\d+Z$/, 'Z')

export function aClaim(fields: { readonly metadata?: object; readonly spec?: object } = {}): InsideRequest {
  const lifecycle = { shutdownTime: inOneHour(), ttlSecondsAfterFinished: 600, shutdownPolicy: 'Delete' }
  const spec = { warmPoolRef: { name: 'agentweaver-agent' }, lifecycle, ...fields.spec }
  return post(`${EXTENSIONS}/${CLAIM.plural}`, [`${CLAIM.group}/${CLAIM.version}`, 'SandboxClaim'], {
    metadata: fields.metadata,
    spec,
  })
}

export const getPod = (pod: string): InsideRequest => ({ method: 'GET', url: `${CORE}/pods/${pod}` })
export const anOpaqueSecret = (): InsideRequest =>
  post(`${CORE}/secrets`, ['v1', 'Secret'], { type: 'Opaque' })

const aPod = () => post(`${CORE}/pods`, ['v1', 'Pod'], { spec: { containers: [{ name: 'x', image: 'x' }] } })
const exec = (pod: string): InsideRequest => ({
  method: 'POST',
  url: `${CORE}/pods/${pod}/exec?command=true`,
})
const otherKeys = () => patch(`${CORE}/configmaps/agentweaver-executor-keys`, { data: { 'jwks.json': '{}' } })
const endpoints = () =>
  post(
    `/apis/discovery.k8s.io/v1/namespaces/${SANDBOXES}/endpointslices`,
    ['discovery.k8s.io/v1', 'EndpointSlice'],
    {
      addressType: 'IPv4',
      endpoints: [{ addresses: ['203.0.113.7'] }],
    },
  )
const token = (namespace: string, account: string) =>
  post(
    `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`,
    ['authentication.k8s.io/v1', 'TokenRequest'],
    { metadata: { name: account }, spec: {} },
  )

type Attempts = Readonly<Record<string, (pod: string) => InsideRequest>>

/** Requests that an attacker in control of the API could send. */
export const BY_THE_API: Attempts = {
  'secrets of the control plane': () => ({
    method: 'GET',
    url: `/api/v1/namespaces/${CONTROL_PLANE}/secrets`,
  }),
  'a pod of its own': aPod,
  'a shell in a sandbox': exec,
  'a token of its own': () => token(CONTROL_PLANE, 'agentweaver-api'),
  'other keys for AgentHost': otherKeys,
  'other endpoints': endpoints,
  'another template': () =>
    patch(`${EXTENSIONS}/sandboxtemplates/agentweaver-agent`, {
      spec: { networkPolicyManagement: 'Managed' },
    }),
  'a larger pool': () =>
    patch(`${EXTENSIONS}/sandboxwarmpools/agentweaver-agent/scale`, { spec: { replicas: 99 } }),
  'the end of a pod': (pod) => remove(`${CORE}/pods/${pod}`),
  'another class for a pod': (pod) =>
    patch(`${CORE}/pods/${pod}`, { metadata: { labels: { 'agentweaver.io/class': 'command' } } }),
  'a claim of a pool of its own': () => aClaim({ spec: { warmPoolRef: { name: 'lax' } } }),
  'a claim for ever': () => aClaim({ spec: { lifecycle: { shutdownPolicy: 'Delete' } } }),
  'a claim that cannot go': () => aClaim({ metadata: { finalizers: ['example.com/never'] } }),
  'a claim with a secret in the clear': () => aClaim({ spec: { env: [{ name: 'TOKEN', value: 'x' }] } }),
  'a Service of every sandbox': () =>
    post(`${CORE}/services`, ['v1', 'Service'], {
      spec: { selector: { 'agentweaver.io/class': 'agent' }, ports: [{ port: 80, targetPort: 3000 }] },
    }),
  'a namespace without rules': () =>
    patch(`/api/v1/namespaces/${SANDBOXES}`, { metadata: { labels: { 'agentweaver.io/slice': null } } }),
}

/** Requests that a tenant could send if RBAC allows everything in the sandbox namespace. */
export const BY_A_TENANT: Attempts = {
  'a shell in a sandbox': exec,
  'a container beside the agent': (pod) =>
    patch(`${CORE}/pods/${pod}/ephemeralcontainers`, {
      spec: { ephemeralContainers: [{ name: 'x', image: 'x' }] },
    }),
  'a pod': aPod,
  'a Deployment': () =>
    post(`/apis/apps/v1/namespaces/${SANDBOXES}/deployments`, ['apps/v1', 'Deployment'], {
      spec: {
        selector: { matchLabels: { a: 'b' } },
        template: { metadata: { labels: { a: 'b' } }, spec: { containers: [{ name: 'x', image: 'x' }] } },
      },
    }),
  'a claim': () => aClaim(),
  'a Sandbox of one’s own': () =>
    post(
      `/apis/agents.x-k8s.io/v1beta1/namespaces/${SANDBOXES}/sandboxes`,
      ['agents.x-k8s.io/v1beta1', 'Sandbox'],
      {
        spec: { podTemplate: { spec: { containers: [{ name: 'x', image: 'x' }] } } },
      },
    ),
  'another template': () =>
    patch(`${EXTENSIONS}/sandboxtemplates/agentweaver-agent`, {
      spec: { networkPolicyManagement: 'Managed' },
    }),
  'an open network': () =>
    post(
      `/apis/networking.k8s.io/v1/namespaces/${SANDBOXES}/networkpolicies`,
      ['networking.k8s.io/v1', 'NetworkPolicy'],
      {
        spec: { podSelector: {}, egress: [{}], policyTypes: ['Egress'] },
      },
    ),
  'an open network, the agent’s way': () =>
    post(
      `/apis/cilium.io/v2/namespaces/${SANDBOXES}/ciliumnetworkpolicies`,
      ['cilium.io/v2', 'CiliumNetworkPolicy'],
      {
        spec: { endpointSelector: {}, egress: [{ toEntities: ['all'] }] },
      },
    ),
  'no parameters': () => remove(`${CORE}/configmaps/agentweaver-admission`),
  'other keys for AgentHost': otherKeys,
  'a quota that counts nothing': () =>
    patch(`${CORE}/resourcequotas/agentweaver-sandboxes/status`, { status: { used: { pods: '0' } } }),
  'a token of the agents’ account': () => token(SANDBOXES, 'agentweaver-agent-host'),
  'no account for the agents': () => remove(`${CORE}/serviceaccounts/agentweaver-agent-host`),
  'other endpoints': endpoints,
  'an autoscaler of the pool': () =>
    post(
      `/apis/autoscaling/v2/namespaces/${SANDBOXES}/horizontalpodautoscalers`,
      ['autoscaling/v2', 'HorizontalPodAutoscaler'],
      {
        spec: {
          scaleTargetRef: {
            apiVersion: `${CLAIM.group}/${CLAIM.version}`,
            kind: 'SandboxWarmPool',
            name: 'agentweaver-agent',
          },
          maxReplicas: 99,
        },
      },
    ),
  'a way in past the Gateway': () =>
    post(
      `/apis/networking.k8s.io/v1/namespaces/${SANDBOXES}/ingresses`,
      ['networking.k8s.io/v1', 'Ingress'],
      {
        spec: { defaultBackend: { service: { name: 'x', port: { number: 80 } } } },
      },
    ),
  'rights for the agents': () =>
    post(`/apis/${RBAC}/v1/namespaces/${SANDBOXES}/rolebindings`, [`${RBAC}/v1`, 'RoleBinding'], {
      roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: 'cluster-admin' },
      subjects: [{ kind: 'ServiceAccount', name: 'agentweaver-agent-host', namespace: SANDBOXES }],
    }),
}
