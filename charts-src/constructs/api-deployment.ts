import { Duration, JsonPatch } from 'cdk8s'
import {
  Capability,
  type ContainerProps,
  Deployment,
  DeploymentStrategy,
  EnvValue,
  ImagePullPolicy,
  LabelSelector,
  PercentOrAbsolute,
  Probe,
  SeccompProfileType,
  ServiceAccount,
} from 'cdk8s-plus-28'
import type { Construct } from 'constructs'
import { names } from '../../contracts/names.ts'
import { API_PORT, METRICS_PORT } from '../../contracts/ports.ts'
import { API_ROUTES } from '../../contracts/routes.ts'
import type { Environment } from '../environment/schema.ts'
import { clusterNames, workloads } from '../workloads.ts'
import { API_KEYS_FOLDER, API_STATE_FOLDER, apiEnv } from './api-env.ts'
import { draft } from './draft.ts'
import { addObject } from './plain-object.ts'
import { containerResources, mib } from './quantities.ts'
import { exchangeToken } from './token-volumes.ts'

const USER = 1001
const GROUP = 1000
/** Must exceed the time in which the service closes its streams and hands over its runs. */
const GRACE_SECONDS = 120
/** Time for every proxy to learn that the pod is terminating. */
const DRAIN_SECONDS = 5

/**
 * The API Deployment. It rolls without downtime, spreads over nodes and zones, and is the only workload with
 * a Kubernetes API credential.
 */
export function addApiDeployment(scope: Construct, environment: Environment): void {
  addObject(
    scope,
    draft((chart) => modelDeployment(chart, environment), completions(environment)),
  )
}

function modelDeployment(scope: Construct, environment: Environment): void {
  const { slice, sizes } = environment
  const { name, namespace, labels } = workloads(slice).api
  const deployment = new Deployment(scope, 'Deployment', {
    metadata: { name, namespace },
    podMetadata: { labels: { ...labels } },
    select: false,
    replicas: sizes.api.replicas,
    strategy: DeploymentStrategy.rollingUpdate({
      maxSurge: PercentOrAbsolute.absolute(1),
      maxUnavailable: PercentOrAbsolute.absolute(0),
    }),
    serviceAccount: ServiceAccount.fromServiceAccountName(scope, 'Account', name),
    automountServiceAccountToken: true,
    terminationGracePeriod: Duration.seconds(GRACE_SECONDS),
    securityContext: { user: USER, group: GROUP, fsGroup: GROUP, ensureNonRoot: true },
    containers: [container(environment)],
  })
  // cdk8s-plus would select by a hash of the construct path, and a Deployment's selector is immutable.
  deployment.select(LabelSelector.of({ labels: { ...labels } }))
}

function container(environment: Environment): ContainerProps {
  const { images } = environment
  const probe = (path: string, seconds: number, failureThreshold: number) =>
    Probe.fromHttpGet(path, { port: API_PORT, periodSeconds: Duration.seconds(seconds), failureThreshold })
  const env = apiEnv(environment)
  return {
    name: 'api',
    image: images.api,
    imagePullPolicy: ImagePullPolicy.IF_NOT_PRESENT,
    ports: [
      { name: 'http', number: API_PORT },
      { name: 'metrics', number: METRICS_PORT },
    ],
    envVariables: Object.fromEntries(
      Object.entries(env).map(([name, value]) => [name, EnvValue.fromValue(value)]),
    ),
    securityContext: {
      user: USER,
      group: GROUP,
      ensureNonRoot: true,
      readOnlyRootFilesystem: true,
      allowPrivilegeEscalation: false,
      capabilities: { drop: [Capability.ALL] },
      seccompProfile: { type: SeccompProfileType.RUNTIME_DEFAULT },
    },
    startup: probe(API_ROUTES.healthz, 1, 60),
    readiness: probe(API_ROUTES.readyz, 5, 3),
    liveness: probe(API_ROUTES.healthz, 10, 6),
  }
}

/**
 * Fields that cdk8s-plus does not model: projected tokens, the preStop sleep, topology spread, priority
 * class, ephemeral storage below 1 GiB.
 */
function completions({ slice, infra, sizes }: Environment): JsonPatch[] {
  const token = infra.azure ? [exchangeToken()] : []
  const volumes = [
    { name: 'state', emptyDir: { sizeLimit: mib(sizes.api.container.ephemeralMib) } },
    { name: 'tmp', emptyDir: { sizeLimit: mib(sizes.api.container.ephemeralMib) } },
    ...(infra.azure ? [] : [keysVolume(slice)]),
    ...token.map(({ volume }) => volume),
  ]
  const volumeMounts = [
    { name: 'state', mountPath: API_STATE_FOLDER },
    { name: 'tmp', mountPath: '/tmp' },
    ...(infra.azure ? [] : [{ name: KEYS_VOLUME, mountPath: API_KEYS_FOLDER, readOnly: true }]),
    ...token.map(({ mount }) => mount),
  ]
  const pod = '/spec/template/spec'
  const { labels } = workloads(slice).api
  const isScaled = sizes.api.maxReplicas > sizes.api.replicas
  return [
    // The autoscaler owns the number of replicas; a number in the tree would reset it at each sync.
    ...(isScaled ? [JsonPatch.remove('/spec/replicas')] : []),
    // A hash of the construct path. It would roll the Deployment whenever that path changes.
    JsonPatch.remove('/spec/template/metadata/labels/cdk8s.io~1metadata.addr'),
    JsonPatch.add(`${pod}/priorityClassName`, clusterNames().priorityClasses.controlPlane),
    JsonPatch.add(`${pod}/enableServiceLinks`, false),
    JsonPatch.add(`${pod}/securityContext/seccompProfile`, { type: 'RuntimeDefault' }),
    JsonPatch.add(`${pod}/topologySpreadConstraints`, [
      spread('kubernetes.io/hostname', labels),
      spread('topology.kubernetes.io/zone', labels),
    ]),
    JsonPatch.add(`${pod}/volumes`, volumes),
    // cdk8s-plus can only express ephemeral storage in whole GiB.
    JsonPatch.add(`${pod}/containers/0/resources`, containerResources(sizes.api.container)),
    JsonPatch.add(`${pod}/containers/0/volumeMounts`, volumeMounts),
    JsonPatch.add(`${pod}/containers/0/lifecycle`, { preStop: { sleep: { seconds: DRAIN_SECONDS } } }),
  ]
}

const KEYS_VOLUME = 'keys'

/** Without a vault another tool creates the Secret of this name: the tree contains no Secret. */
function keysVolume(slice: Environment['slice']) {
  return { name: KEYS_VOLUME, secret: { secretName: names(slice).keysSecret, defaultMode: 0o440 } }
}

function spread(topologyKey: string, matchLabels: Readonly<Record<string, string>>) {
  return { maxSkew: 1, topologyKey, whenUnsatisfiable: 'ScheduleAnyway', labelSelector: { matchLabels } }
}
