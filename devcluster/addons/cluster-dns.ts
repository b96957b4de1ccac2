import type { KubeClient } from '../client/kube-client.ts'
import type { KubeObject } from '../client/kube-object.ts'
import type { AddressPlan } from '../host/addresses.ts'
import type { Daemon } from '../host/daemon.ts'
import { waitUntil } from '../host/wait-until.ts'
import { DNS_IMAGE } from '../images/toolbox.ts'

const NAMESPACE = 'kube-system'
const NAME = 'coredns'
const READY_PORT = 8181
const READY_MS = 60_000
const LABELS = { 'k8s-app': 'kube-dns' }

/**
 * Resolves the cluster's own names, the database of `environments/local.json`, and a few names of the documentation
 * domain, which tests of egress by name use with their own addresses. No other name exists, because the cluster cannot
 * reach anything outside.
 */
const COREFILE = `.:53 {
  errors
  health
  ready
  hosts {
    198.51.100.10 allowed.example.com
    198.51.100.20 other.example.com
    198.51.100.30 api.wild.example.com
    198.51.100.40 postgres.local.agentweaver.example
    169.254.169.254 metadata.example.com
    fallthrough
  }
  kubernetes cluster.local in-addr.arpa {
    pods insecure
    ttl 30
  }
  cache 30
}
`

/** Applies the resolver with the names and labels that the network policies expect. */
export async function applyClusterDns(client: KubeClient, plan: AddressPlan): Promise<void> {
  await Promise.all(
    [...rights(), configuration(), service(plan.dnsService)].map((object) => client.apply(object)),
  )
  await client.apply(deployment())
}

export async function waitForClusterDns(client: KubeClient, needs: readonly Daemon[]): Promise<void> {
  const path = { apiVersion: 'apps/v1', plural: 'deployments', namespace: NAMESPACE, name: NAME }
  await waitUntil({ what: 'cluster DNS', timeoutMs: READY_MS, needs, everyMs: 100 }, async () => {
    const { status } = await client.get(path)
    return status?.availableReplicas >= 1 ? true : undefined
  })
}

function rights(): KubeObject[] {
  const metadata = { name: `system:${NAME}` }
  const rule = (apiGroups: string[], resources: string[]) => ({
    apiGroups,
    resources,
    verbs: ['list', 'watch'],
  })
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: NAME, namespace: NAMESPACE } },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRole',
      metadata,
      rules: [rule([''], ['services', 'pods', 'namespaces']), rule(['discovery.k8s.io'], ['endpointslices'])],
    },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata,
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: metadata.name },
      subjects: [{ kind: 'ServiceAccount', name: NAME, namespace: NAMESPACE }],
    },
  ]
}

function configuration(): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: NAME, namespace: NAMESPACE },
    data: { Corefile: COREFILE },
  }
}

function service(clusterIP: string): KubeObject {
  const port = (protocol: string) => ({
    name: `dns-${protocol.toLowerCase()}`,
    port: 53,
    protocol,
    targetPort: 53,
  })
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'kube-dns', namespace: NAMESPACE, labels: LABELS },
    spec: { clusterIP, selector: LABELS, ports: [port('UDP'), port('TCP')] },
  }
}

function deployment(): KubeObject {
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: NAME, namespace: NAMESPACE, labels: LABELS },
    spec: {
      replicas: 1,
      selector: { matchLabels: LABELS },
      template: { metadata: { labels: LABELS }, spec: podSpec() },
    },
  }
}

function podSpec() {
  return {
    serviceAccountName: NAME,
    dnsPolicy: 'Default',
    terminationGracePeriodSeconds: 1,
    containers: [
      {
        name: NAME,
        image: DNS_IMAGE,
        imagePullPolicy: 'Never',
        args: ['-conf', '/etc/coredns/Corefile'],
        volumeMounts: [{ name: 'config', mountPath: '/etc/coredns', readOnly: true }],
        ports: [
          { name: 'dns', containerPort: 53, protocol: 'UDP' },
          { name: 'dns-tcp', containerPort: 53, protocol: 'TCP' },
        ],
        readinessProbe: { httpGet: { path: '/ready', port: READY_PORT }, periodSeconds: 1 },
        securityContext: {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'], add: ['NET_BIND_SERVICE'] },
        },
      },
    ],
    volumes: [{ name: 'config', configMap: { name: NAME } }],
  }
}
