import { randomBytes } from 'node:crypto'
import type { KubeClient } from '../../../devcluster/client/kube-client.ts'
import type { KubeObject } from '../../../devcluster/client/kube-object.ts'
import { waitUntil } from '../../../devcluster/host/wait-until.ts'
import { DNS_IMAGE } from '../../../devcluster/images/toolbox.ts'

const NAMESPACE = 'kube-system'
const READY_MS = 60_000
const READY_PORT = 8181

export interface ProbeDns {
  /** The address of its Service, which pods have as their resolver. */
  readonly address: string
  readonly pod: { readonly namespace: string; readonly name: string; readonly ip: string }
  readonly labels: Readonly<Record<string, string>>
  stop(): Promise<void>
}

/**
 * Starts a DNS server with the program and labels of the cluster's resolver, and with the test's records. Its readiness
 * gate never becomes true, so the Service of the cluster's resolver, which selects the same labels, routes no traffic
 * to it.
 */
export async function startProbeDns(
  client: KubeClient,
  records: Readonly<Record<string, string>>,
): Promise<ProbeDns> {
  // The one of the file before may still be going.
  const name = `probe-dns-${randomBytes(3).toString('hex')}`
  const labels = { 'k8s-app': 'kube-dns', 'probe-dns': name }
  const objects = [
    configuration(name, records),
    resolverPod(name, labels),
    service(name, { 'probe-dns': name }),
  ]
  for (const object of objects) await client.create(object)
  const pod = { apiVersion: 'v1', plural: 'pods', namespace: NAMESPACE, name }
  const ip = await waitUntil({ what: 'the resolver of the test', timeoutMs: READY_MS }, async () => {
    const { status } = await client.get(pod)
    return status?.containerStatuses?.[0]?.ready ? (status.podIP as string) : undefined
  })
  const { spec } = await client.get({ ...pod, plural: 'services' })
  return {
    address: spec.clusterIP as string,
    pod: { namespace: NAMESPACE, name, ip },
    labels,
    async stop() {
      for (const plural of ['services', 'pods', 'configmaps']) await client.delete({ ...pod, plural })
    },
  }
}

function configuration(name: string, records: Readonly<Record<string, string>>): KubeObject {
  const hosts = Object.entries(records).map(([host, address]) => `    ${address} ${host}`)
  const Corefile = [
    '.:53 {',
    '  errors',
    `  ready :${READY_PORT}`,
    '  hosts {',
    ...hosts,
    '    ttl 5',
    '  }',
    '}',
    '',
  ].join('\n')
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name, namespace: NAMESPACE },
    data: { Corefile },
  }
}

function resolverPod(name: string, labels: Readonly<Record<string, string>>): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: NAMESPACE, labels },
    spec: {
      readinessGates: [{ conditionType: 'agentweaver.io/never' }],
      automountServiceAccountToken: false,
      terminationGracePeriodSeconds: 1,
      containers: [
        {
          name: 'resolver',
          image: DNS_IMAGE,
          imagePullPolicy: 'Never',
          args: ['-conf', '/etc/coredns/Corefile'],
          volumeMounts: [{ name: 'config', mountPath: '/etc/coredns', readOnly: true }],
          ports: ['UDP', 'TCP'].map((protocol) => ({
            name: `dns-${protocol.toLowerCase()}`,
            containerPort: 53,
            protocol,
          })),
          readinessProbe: { httpGet: { path: '/ready', port: READY_PORT }, periodSeconds: 1 },
          securityContext: { capabilities: { drop: ['ALL'], add: ['NET_BIND_SERVICE'] } },
        },
      ],
      volumes: [{ name: 'config', configMap: { name } }],
    },
  }
}

function service(name: string, selector: Readonly<Record<string, string>>): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: NAMESPACE },
    spec: {
      selector,
      publishNotReadyAddresses: true,
      ports: ['UDP', 'TCP'].map((protocol) => ({ name: protocol.toLowerCase(), port: 53, protocol })),
    },
  }
}
