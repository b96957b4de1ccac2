import { Construct } from 'constructs'
import { names } from '../../contracts/names.ts'
import { API_PORT, EGRESS_CONTROL_PORT, METRICS_PORT } from '../../contracts/ports.ts'
import { API_ROUTES } from '../../contracts/routes.ts'
import type { Environment } from '../environment/schema.ts'
import {
  type Container,
  IntOrString,
  KubeDeployment,
  type PodSpec,
  type Probe,
  type TopologySpreadConstraint,
  type Volume,
  type VolumeMount,
} from '../imports/k8s.js'
import { clusterNames, workloads } from '../workloads.ts'
import { API_KEYS_FOLDER, API_STATE_FOLDER, apiEnv } from './api-env.ts'
import type { PolicyFiles } from './policy-files.ts'
import { containerResources, mib } from './quantities.ts'
import { exchangeToken } from './token-volumes.ts'

const USER = 1001
const GROUP = 1000
/** Must exceed the time in which the service closes its streams and hands over its runs. */
const GRACE_SECONDS = 120
/** Time for every proxy to learn that the pod is terminating. */
const DRAIN_SECONDS = 5

export interface ApiDeploymentProps {
  readonly environment: Environment
  readonly policy: Pick<PolicyFiles, 'volume' | 'mount' | 'digest'>
}

/** Pod annotation. Its value changes with the policy files. */
const POLICY_ANNOTATION = 'agentweaver.io/policy'

/**
 * The API Deployment. It rolls without downtime, spreads over nodes and zones, and is the only workload with
 * a Kubernetes API credential.
 */
export class ApiDeployment extends Construct {
  constructor(scope: Construct, id: string, { environment, policy }: ApiDeploymentProps) {
    super(scope, id)
    const { slice, sizes } = environment
    const { name, namespace, labels } = workloads(slice).api
    const isScaled = sizes.api.maxReplicas > sizes.api.replicas
    new KubeDeployment(this, 'Resource', {
      metadata: { name, namespace },
      spec: {
        minReadySeconds: 0,
        progressDeadlineSeconds: 600,
        // The autoscaler owns the number of replicas; a number in the tree would reset it at each sync.
        replicas: isScaled ? undefined : sizes.api.replicas,
        selector: { matchLabels: labels },
        strategy: {
          type: 'RollingUpdate',
          rollingUpdate: { maxSurge: IntOrString.fromNumber(1), maxUnavailable: IntOrString.fromNumber(0) },
        },
        template: {
          metadata: { labels, annotations: { [POLICY_ANNOTATION]: policy.digest } },
          spec: podSpec(environment, policy),
        },
      },
    })
  }
}

type Policy = ApiDeploymentProps['policy']

function podSpec(environment: Environment, policy: Policy): PodSpec {
  const { name, labels } = workloads(environment.slice).api
  return {
    serviceAccountName: name,
    automountServiceAccountToken: true,
    enableServiceLinks: false,
    dnsPolicy: 'ClusterFirst',
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
    containers: [container(environment, policy)],
    volumes: [...volumes(environment), policy.volume],
  }
}

function container(environment: Environment, policy: Policy): Container {
  const { images, sizes, egress } = environment
  const env = Object.entries(apiEnv(environment)).map(([name, value]) => ({ name, value }))
  return {
    name: 'api',
    image: images.api,
    imagePullPolicy: 'IfNotPresent',
    ports: [
      { name: 'http', containerPort: API_PORT },
      { name: 'metrics', containerPort: METRICS_PORT },
      ...(egress.mode === 'proxy' ? [{ name: 'egress', containerPort: EGRESS_CONTROL_PORT }] : []),
    ],
    env,
    resources: containerResources(sizes.api.container),
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
    startupProbe: probe(API_ROUTES.healthz, 1, 60),
    readinessProbe: probe(API_ROUTES.readyz, 5, 3),
    livenessProbe: probe(API_ROUTES.healthz, 10, 6),
    lifecycle: { preStop: { sleep: { seconds: DRAIN_SECONDS } } },
    volumeMounts: [...volumeMounts(environment), policy.mount],
  }
}

function probe(path: string, periodSeconds: number, failureThreshold: number): Probe {
  const port = IntOrString.fromNumber(API_PORT)
  return { httpGet: { path, port, scheme: 'HTTP' }, periodSeconds, failureThreshold }
}

const KEYS_VOLUME = 'keys'

function volumes({ slice, infra, sizes }: Environment): Volume[] {
  const sizeLimit = mib(sizes.api.container.ephemeralMib)
  // Without a vault another tool creates the Secret of this name: the tree contains no Secret.
  const keys = { name: KEYS_VOLUME, secret: { secretName: names(slice).keysSecret, defaultMode: 0o440 } }
  return [
    { name: 'state', emptyDir: { sizeLimit } },
    { name: 'tmp', emptyDir: { sizeLimit } },
    infra.azure ? exchangeToken().volume : keys,
  ]
}

function volumeMounts({ infra }: Environment): VolumeMount[] {
  return [
    { name: 'state', mountPath: API_STATE_FOLDER },
    { name: 'tmp', mountPath: '/tmp' },
    infra.azure ? exchangeToken().mount : { name: KEYS_VOLUME, mountPath: API_KEYS_FOLDER, readOnly: true },
  ]
}

function spread(
  topologyKey: string,
  matchLabels: Readonly<Record<string, string>>,
): TopologySpreadConstraint {
  return { maxSkew: 1, topologyKey, whenUnsatisfiable: 'ScheduleAnyway', labelSelector: { matchLabels } }
}
