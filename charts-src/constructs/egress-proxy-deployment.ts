import { Construct } from 'constructs'
import { EGRESS_CONTROL_TOKEN, type EgressProxyEnv } from '../../contracts/egress-proxy-env.ts'
import { EGRESS_CONTROL_PORT, EGRESS_HEALTH_PORT, EGRESS_PROXY_PORT } from '../../contracts/ports.ts'
import { EGRESS_PROXY_ROUTES } from '../../contracts/routes.ts'
import type { Environment } from '../environment/schema.ts'
import {
  type Container,
  IntOrString,
  KubeDeployment,
  type PodSpec,
  type Probe,
  type TopologySpreadConstraint,
} from '../imports/k8s.js'
import { clusterNames, workloads } from '../workloads.ts'
import { toEnvVars } from './env-vars.ts'
import { containerResources, mib } from './quantities.ts'
import { controlToken } from './token-volumes.ts'

/** The user of the image. */
const USER = 1001
const GROUP = 1000
/** Must exceed the 25 s for which a replica that stops keeps its open connections, and the drain before. */
const GRACE_SECONDS = 40
/** Time for every node to learn that the pod is terminating. */
const DRAIN_SECONDS = 5

type Size = NonNullable<Environment['sizes']['egressProxy']>

export interface EgressProxyDeploymentProps {
  readonly environment: Environment
  readonly size: Size
}

/** The egress proxy: the only pods of the product that may connect to the internet. They hold no Kubernetes credential. */
export class EgressProxyDeployment extends Construct {
  constructor(scope: Construct, id: string, { environment, size }: EgressProxyDeploymentProps) {
    super(scope, id)
    const { name, namespace, labels } = workloads(environment.slice).egressProxy
    new KubeDeployment(this, 'Resource', {
      metadata: { name, namespace },
      spec: {
        minReadySeconds: 0,
        progressDeadlineSeconds: 600,
        // The autoscaler owns the number of replicas; a number in the tree would reset it at each sync.
        replicas: size.maxReplicas > size.replicas ? undefined : size.replicas,
        selector: { matchLabels: labels },
        strategy: {
          type: 'RollingUpdate',
          rollingUpdate: { maxSurge: IntOrString.fromNumber(1), maxUnavailable: IntOrString.fromNumber(0) },
        },
        template: { metadata: { labels }, spec: podSpec(environment, size) },
      },
    })
  }
}

function podSpec(environment: Environment, size: Size): PodSpec {
  const { name, labels } = workloads(environment.slice).egressProxy
  return {
    serviceAccountName: name,
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    dnsPolicy: 'ClusterFirst',
    // Looks up each name as it is written. Search domains would tell the cluster's resolver other names first.
    dnsConfig: { options: [{ name: 'ndots', value: '1' }] },
    hostNetwork: false,
    restartPolicy: 'Always',
    setHostnameAsFqdn: false,
    terminationGracePeriodSeconds: GRACE_SECONDS,
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
    containers: [container(environment, size)],
    volumes: [
      { name: 'tmp', emptyDir: { sizeLimit: mib(size.container.ephemeralMib) } },
      controlToken().volume,
    ],
  }
}

function container(environment: Environment, size: Size): Container {
  return {
    name: 'egress-proxy',
    image: environment.images.egressProxy,
    imagePullPolicy: 'IfNotPresent',
    ports: [
      { name: 'proxy', containerPort: EGRESS_PROXY_PORT },
      { name: 'metrics', containerPort: EGRESS_HEALTH_PORT },
    ],
    env: toEnvVars<keyof EgressProxyEnv>({
      AGENTWEAVER_EGRESS_CONTROL_URL: controlUrl(environment),
      AGENTWEAVER_EGRESS_CONTROL_TOKEN_FILE: `${EGRESS_CONTROL_TOKEN.mountPath}/${EGRESS_CONTROL_TOKEN.file}`,
    }),
    resources: containerResources(size.container),
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
    startupProbe: probe(EGRESS_PROXY_ROUTES.healthz, 1, 60),
    readinessProbe: probe(EGRESS_PROXY_ROUTES.readyz, 2, 2),
    livenessProbe: probe(EGRESS_PROXY_ROUTES.healthz, 10, 6),
    lifecycle: { preStop: { sleep: { seconds: DRAIN_SECONDS } } },
    volumeMounts: [{ name: 'tmp', mountPath: '/tmp' }, controlToken().mount],
  }
}

/** The full name, so that it needs no search domain. */
function controlUrl({ slice }: Environment): string {
  const { name, namespace } = workloads(slice).egressControl
  return `http://${name}.${namespace}.svc.cluster.local:${EGRESS_CONTROL_PORT}`
}

function probe(path: string, periodSeconds: number, failureThreshold: number): Probe {
  const port = IntOrString.fromNumber(EGRESS_HEALTH_PORT)
  return { httpGet: { path, port, scheme: 'HTTP' }, periodSeconds, failureThreshold }
}

function spread(
  topologyKey: string,
  matchLabels: Readonly<Record<string, string>>,
): TopologySpreadConstraint {
  return { maxSkew: 1, topologyKey, whenUnsatisfiable: 'ScheduleAnyway', labelSelector: { matchLabels } }
}
