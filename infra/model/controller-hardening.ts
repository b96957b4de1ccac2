import { CONTROLLER_NAMESPACE } from '../../contracts/names.ts'
import { AZURE_POD_MONITOR, SCRAPE_INTERVAL } from '../../contracts/pod-monitor.ts'
import type { KubeManifest } from './controller-release.ts'

/** Name of the Deployment, its account, its label and its container. */
const CONTROLLER = 'agent-sandbox-controller'
const PORTS = { metrics: 8080, health: 8081 } as const
const RUN_AS = 65_532

export interface ControllerSettings {
  /** By digest. */
  readonly image: string
  readonly replicas: number
}

/** Objects of the release as we run them: the namespace closed, the controller with limits, probes and our flags. */
export function hardened(object: KubeManifest, settings: ControllerSettings): KubeManifest {
  if (object.kind === 'Namespace') return hardenedNamespace(object)
  if (object.kind === 'Deployment') return hardenedDeployment(object, settings)
  return object
}

function hardenedNamespace(object: KubeManifest): KubeManifest {
  const restricted = Object.fromEntries(
    ['audit', 'enforce', 'warn'].map((mode) => [`pod-security.kubernetes.io/${mode}`, 'restricted']),
  )
  return { ...object, metadata: { ...object.metadata, labels: restricted } }
}

/** The spec is ours as a whole, so that a release that changes its own shows by its checksum and not by surprise. */
function hardenedDeployment(object: KubeManifest, { image, replicas }: ControllerSettings): KubeManifest {
  const labels = { app: CONTROLLER }
  return {
    ...object,
    metadata: { ...object.metadata, labels },
    spec: {
      replicas,
      selector: { matchLabels: labels },
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 1, maxSurge: 1 } },
      template: {
        metadata: { labels },
        spec: {
          serviceAccountName: CONTROLLER,
          priorityClassName: 'system-cluster-critical',
          enableServiceLinks: false,
          terminationGracePeriodSeconds: 30,
          securityContext: {
            runAsNonRoot: true,
            runAsUser: RUN_AS,
            runAsGroup: RUN_AS,
            seccompProfile: { type: 'RuntimeDefault' },
          },
          topologySpreadConstraints: [
            {
              maxSkew: 1,
              topologyKey: 'topology.kubernetes.io/zone',
              whenUnsatisfiable: 'ScheduleAnyway',
              labelSelector: { matchLabels: labels },
            },
          ],
          containers: [container(image)],
        },
      },
    },
  }
}

function container(image: string) {
  const probe = (path: string) => ({ httpGet: { path, port: 'healthz' }, timeoutSeconds: 3 })
  return {
    name: CONTROLLER,
    image,
    args: [
      '--leader-elect=true',
      '--extensions',
      // One worker fills one pool at a time; each slice has two.
      '--sandbox-warm-pool-concurrent-workers=4',
      '--sandbox-template-concurrent-workers=2',
    ],
    ports: [
      { name: 'metrics', containerPort: PORTS.metrics, protocol: 'TCP' },
      { name: 'healthz', containerPort: PORTS.health, protocol: 'TCP' },
    ],
    resources: {
      requests: { cpu: '100m', memory: '256Mi' },
      limits: { cpu: '2', memory: '1Gi' },
    },
    startupProbe: { ...probe('/healthz'), periodSeconds: 2, failureThreshold: 30 },
    livenessProbe: { ...probe('/healthz'), periodSeconds: 10, failureThreshold: 3 },
    readinessProbe: { ...probe('/readyz'), periodSeconds: 5, failureThreshold: 2 },
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    },
  }
}

/**
 * Objects that the release lacks. Network policies close the controller's namespace except for its connections to the
 * API server and the collector's connections to its metrics. A disruption budget lets a node drain stop only one
 * replica at a time.
 */
export function controllerSurroundings(apiServerPort: number, monitoringNamespace: string): KubeManifest[] {
  const labels = { app: CONTROLLER }
  const meta = (name: string) => ({ name, namespace: CONTROLLER_NAMESPACE })
  const policy = { apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy' } as const
  return [
    {
      ...policy,
      metadata: meta('default-deny'),
      spec: { podSelector: {}, policyTypes: ['Ingress', 'Egress'] },
    },
    {
      ...policy,
      metadata: meta('metrics'),
      spec: {
        podSelector: { matchLabels: labels },
        policyTypes: ['Ingress'],
        ingress: [
          {
            from: [
              { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': monitoringNamespace } } },
            ],
            ports: [{ port: PORTS.metrics, protocol: 'TCP' }],
          },
        ],
      },
    },
    {
      apiVersion: 'cilium.io/v2',
      kind: 'CiliumNetworkPolicy',
      metadata: meta('api-server'),
      spec: {
        endpointSelector: { matchLabels: labels },
        // By label: the address may be a node's, which no range selects.
        egress: [
          {
            toEntities: ['kube-apiserver'],
            toPorts: [{ ports: [{ port: String(apiServerPort), protocol: 'TCP' }] }],
          },
        ],
      },
    },
    {
      apiVersion: 'policy/v1',
      kind: 'PodDisruptionBudget',
      metadata: meta(CONTROLLER),
      spec: { maxUnavailable: 1, selector: { matchLabels: labels } },
    },
  ]
}

/**
 * Collects the controller's metrics; without them no alert knows how many sandboxes are ready. The metrics have their
 * own `namespace` label (the namespace of the sandboxes), which `honorLabels` keeps. The selector is the port name,
 * which the release and the chart share, and not labels, which an extension may choose.
 */
export function controllerScrape(): KubeManifest {
  return {
    apiVersion: AZURE_POD_MONITOR.apiVersion,
    kind: 'PodMonitor',
    metadata: { name: CONTROLLER, namespace: CONTROLLER_NAMESPACE },
    spec: {
      selector: {},
      podMetricsEndpoints: [
        { port: 'metrics', path: '/metrics', interval: SCRAPE_INTERVAL, honorLabels: true },
      ],
      ...AZURE_POD_MONITOR.limits,
    },
  }
}
