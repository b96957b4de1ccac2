import { Construct } from 'constructs'
import {
  type Container,
  IntOrString,
  KubeDeployment,
  type KubeDeploymentProps,
  type PodSpec,
  type Probe,
  type TopologySpreadConstraint,
} from '../imports/k8s.js'
import { clusterNames } from '../workloads.ts'

/** The user and the group of the images of the services. */
const USER = 1001
const GROUP = 1000
/** Time for every node and proxy to learn that the pod is terminating. */
const DRAIN_SECONDS = 5

interface ReadinessProbe {
  readonly path: string
  readonly periodSeconds: number
  readonly failureThreshold: number
}

type ServiceContainer = Pick<
  Container,
  'name' | 'image' | 'args' | 'ports' | 'env' | 'resources' | 'volumeMounts'
>

interface Probes {
  readonly port: number
  readonly healthz: string
  readonly readyz: ReadinessProbe
}

export interface ServiceDeploymentProps {
  readonly workload: {
    readonly name: string
    readonly namespace: string
    readonly labels: Readonly<Record<string, string>>
  }
  readonly size: { readonly replicas: number; readonly maxReplicas: number }
  /** @default none */
  readonly annotations?: Readonly<Record<string, string>>
  readonly pod: Required<Pick<PodSpec, 'automountServiceAccountToken' | 'terminationGracePeriodSeconds'>> &
    Pick<PodSpec, 'dnsConfig' | 'volumes'>
  readonly container: ServiceContainer
  readonly probes: Probes
  /** A second container. @default none */
  readonly second?: { readonly container: ServiceContainer; readonly probes: Probes } | undefined
}

/**
 * The Deployment of a service of the product. It rolls without downtime, spreads over nodes and zones, and its pods run
 * without privileges.
 */
export class ServiceDeployment extends Construct {
  constructor(scope: Construct, id: string, props: ServiceDeploymentProps) {
    super(scope, id)
    const { name, namespace } = props.workload
    new KubeDeployment(this, 'Resource', { metadata: { name, namespace }, spec: deploymentSpec(props) })
  }
}

function deploymentSpec(props: ServiceDeploymentProps): KubeDeploymentProps['spec'] {
  const { workload, size, annotations } = props
  const { labels } = workload
  return {
    minReadySeconds: 0,
    progressDeadlineSeconds: 600,
    // The autoscaler owns the number of replicas; a number in the tree would reset it at each sync.
    replicas: size.maxReplicas > size.replicas ? undefined : size.replicas,
    selector: { matchLabels: labels },
    strategy: {
      type: 'RollingUpdate',
      rollingUpdate: { maxSurge: IntOrString.fromNumber(1), maxUnavailable: IntOrString.fromNumber(0) },
    },
    template: { metadata: { labels, ...(annotations && { annotations }) }, spec: podSpec(props) },
  }
}

function podSpec({ workload, pod, container, probes, second }: ServiceDeploymentProps): PodSpec {
  const { name, labels } = workload
  return {
    ...pod,
    serviceAccountName: name,
    enableServiceLinks: false,
    dnsPolicy: 'ClusterFirst',
    hostNetwork: false,
    restartPolicy: 'Always',
    setHostnameAsFqdn: false,
    priorityClassName: clusterNames().priorityClasses.controlPlane,
    securityContext: {
      runAsUser: USER,
      runAsGroup: GROUP,
      fsGroup: GROUP,
      fsGroupChangePolicy: 'Always',
      runAsNonRoot: true,
      seccompProfile: { type: 'RuntimeDefault' },
    },
    topologySpreadConstraints: [
      spread('kubernetes.io/hostname', labels),
      spread('topology.kubernetes.io/zone', labels),
    ],
    containers: [
      { ...container, ...containerDefaults(probes) },
      ...(second ? [{ ...second.container, ...containerDefaults(second.probes) }] : []),
    ],
  }
}

function containerDefaults({ port, healthz, readyz }: Probes) {
  return {
    imagePullPolicy: 'IfNotPresent',
    securityContext: {
      runAsUser: USER,
      runAsGroup: GROUP,
      runAsNonRoot: true,
      privileged: false,
      readOnlyRootFilesystem: true,
      allowPrivilegeEscalation: false,
      capabilities: { drop: ['ALL'] },
      seccompProfile: { type: 'RuntimeDefault' },
    },
    startupProbe: probe(port, { path: healthz, periodSeconds: 1, failureThreshold: 60 }),
    readinessProbe: probe(port, readyz),
    livenessProbe: probe(port, { path: healthz, periodSeconds: 10, failureThreshold: 6 }),
    lifecycle: { preStop: { sleep: { seconds: DRAIN_SECONDS } } },
  } satisfies Partial<Container>
}

function probe(port: number, { path, periodSeconds, failureThreshold }: ReadinessProbe): Probe {
  const httpGet = { path, port: IntOrString.fromNumber(port), scheme: 'HTTP' }
  return { httpGet, periodSeconds, failureThreshold }
}

function spread(
  topologyKey: string,
  matchLabels: Readonly<Record<string, string>>,
): TopologySpreadConstraint {
  return { maxSkew: 1, topologyKey, whenUnsatisfiable: 'ScheduleAnyway', labelSelector: { matchLabels } }
}
