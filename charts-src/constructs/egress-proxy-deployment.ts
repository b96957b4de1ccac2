import { createHash } from 'node:crypto'
import type { Construct } from 'constructs'
import {
  EGRESS_BROKER_SOCKET,
  EGRESS_CONTROL_TOKEN,
  EGRESS_CREDENTIALS_TOKEN,
  type EgressProxyEnv,
  UPSTREAM_PROXY_KEY,
} from '../../contracts/egress-proxy-env.ts'
import {
  EGRESS_CONTROL_PORT,
  EGRESS_CREDENTIALS_HEALTH_PORT,
  EGRESS_HEALTH_PORT,
  EGRESS_PROXY_PORT,
} from '../../contracts/ports.ts'
import { EGRESS_PROXY_ROUTES } from '../../contracts/routes.ts'
import { reasonForCredentials } from '../environment/credentials-container.ts'
import { foundryUrl } from '../environment/foundry.ts'
import type { ContainerSize, Environment } from '../environment/schema.ts'
import { KubeConfigMap, type Volume, type VolumeMount } from '../imports/k8s.js'
import { workloads } from '../workloads.ts'
import { azureLogin } from './api-env.ts'
import { type EnvValues, toEnvVars } from './env-vars.ts'
import { rootsText } from './policy-files.ts'
import { containerResources, mib } from './quantities.ts'
import { ServiceDeployment } from './service-deployment.ts'
import { controlToken, credentialsToken, exchangeToken, type MountedToken } from './token-volumes.ts'

/** Must exceed the 25 s for which a replica that stops keeps its open connections, and the drain before. */
const GRACE_SECONDS = 40

/** Argument of the program. */
const CREDENTIALS_ROLE = 'credentials'

const ROOTS = { volume: 'roots', mountPath: '/etc/agentweaver/roots', file: 'roots.pem' } as const
/** Pod annotation. Its value changes with the roots, which the program reads when it starts. */
const ROOTS_ANNOTATION = 'agentweaver.io/roots'

type Size = NonNullable<Environment['sizes']['egressProxy']>

export interface EgressProxyDeploymentProps {
  readonly environment: Environment
  readonly size: Size
}

/**
 * The egress proxy: the only pods of the product that may connect to the internet. They hold no Kubernetes credential. A
 * second container inserts credentials, and tokens of the proxy's Azure identity. It alone has the tokens for them, and its own
 * processes and memory.
 */
export class EgressProxyDeployment extends ServiceDeployment {
  constructor(scope: Construct, id: string, { environment, size }: EgressProxyDeploymentProps) {
    const { roots } = environment.egress
    super(scope, id, {
      workload: workloads(environment.slice).egressProxy,
      size,
      ...(roots && { annotations: { [ROOTS_ANNOTATION]: digestOf(roots) } }),
      pod: {
        automountServiceAccountToken: false,
        // Looks up each name as it is written. Search domains would tell the cluster's resolver other names first.
        dnsConfig: { options: [{ name: 'ndots', value: '1' }] },
        terminationGracePeriodSeconds: GRACE_SECONDS,
        volumes: volumes(environment, size),
      },
      container: proxyContainer(environment, size.container),
      probes: probesAt(EGRESS_HEALTH_PORT),
      second: size.credentials && {
        container: credentialsContainer(environment, size.credentials),
        probes: probesAt(EGRESS_CREDENTIALS_HEALTH_PORT),
      },
    })
    if (roots) addRoots(this, environment, roots)
  }
}

function probesAt(port: number) {
  const { healthz, readyz } = EGRESS_PROXY_ROUTES
  return { port, healthz, readyz: { path: readyz, periodSeconds: 2, failureThreshold: 2 } }
}

function volumes(environment: Environment, size: Size): Volume[] {
  const { slice } = environment
  const { roots } = environment.egress
  return [
    { name: 'tmp', emptyDir: { sizeLimit: mib(size.container.ephemeralMib) } },
    controlToken().volume,
    ...(size.credentials ? [credentialsToken().volume, SOCKET_VOLUME, CHECKS_VOLUME] : []),
    ...(azureAccess(environment) ? [exchangeToken().volume] : []),
    ...(roots ? [{ name: ROOTS.volume, configMap: { name: rootsName(slice), defaultMode: 0o444 } }] : []),
  ]
}

/** In memory, and as small as a volume can be: it contains one socket. */
const SOCKET_VOLUME: Volume = { name: 'credentials', emptyDir: { medium: 'Memory', sizeLimit: mib(1) } }
/** The sockets of checks of credentials. The other container must not be able to connect to them. */
const CHECKS_VOLUME: Volume = { name: 'credentials-tmp', emptyDir: { medium: 'Memory', sizeLimit: mib(1) } }
const SOCKET = `${EGRESS_BROKER_SOCKET.mountPath}/${EGRESS_BROKER_SOCKET.name}`
const socketMount = (readOnly: boolean): VolumeMount => ({
  name: SOCKET_VOLUME.name,
  mountPath: EGRESS_BROKER_SOCKET.mountPath,
  readOnly,
})

interface Differences {
  readonly token: MountedToken
  readonly tokenFile: string
  readonly env: EnvValues<keyof EgressProxyEnv>
  readonly mounts: readonly VolumeMount[]
}

function common(environment: Environment, { token, tokenFile, env, mounts }: Differences) {
  const { roots, upstreamProxy } = environment.egress
  return {
    image: environment.images.egressProxy,
    env: toEnvVars<keyof EgressProxyEnv | 'NODE_EXTRA_CA_CERTS'>({
      AGENTWEAVER_EGRESS_CONTROL_URL: controlUrl(environment),
      AGENTWEAVER_EGRESS_CONTROL_TOKEN_FILE: tokenFile,
      ...(upstreamProxy && { [UPSTREAM_PROXY_KEY]: upstreamProxy.url }),
      ...(roots && { NODE_EXTRA_CA_CERTS: `${ROOTS.mountPath}/${ROOTS.file}` }),
      ...env,
    }),
    volumeMounts: [
      ...mounts,
      token.mount,
      ...(roots ? [{ name: ROOTS.volume, mountPath: ROOTS.mountPath, readOnly: true }] : []),
    ],
  }
}

function proxyContainer(environment: Environment, size: ContainerSize) {
  const hasCredentials = reasonForCredentials(environment) !== undefined
  return {
    name: 'egress-proxy',
    ports: [
      { name: 'proxy', containerPort: EGRESS_PROXY_PORT },
      { name: 'metrics', containerPort: EGRESS_HEALTH_PORT },
    ],
    resources: containerResources(size),
    ...common(environment, {
      token: controlToken(),
      tokenFile: `${EGRESS_CONTROL_TOKEN.mountPath}/${EGRESS_CONTROL_TOKEN.file}`,
      env: hasCredentials ? { AGENTWEAVER_EGRESS_BROKER_SOCKET: SOCKET } : {},
      // It may connect to the socket, and not put another one in its place.
      mounts: [{ name: 'tmp', mountPath: '/tmp' }, ...(hasCredentials ? [socketMount(true)] : [])],
    }),
  }
}

/**
 * The identity with which the second container reads the vault of users' credentials and calls the models of kind `foundry`.
 * Undefined if it does neither.
 */
function azureAccess(environment: Environment): EnvValues<keyof EgressProxyEnv> | undefined {
  const { azure } = environment.infra
  if (!azure || !environment.sizes.egressProxy?.credentials) return undefined
  const url = foundryUrl(environment)
  return {
    AGENTWEAVER_EGRESS_VAULT_URL: `https://${azure.vaults.userTokens.host}`,
    ...(url !== undefined && { AGENTWEAVER_EGRESS_FOUNDRY_URL: url }),
    ...azureLogin(azure, azure.identities.egressProxy.clientId),
  }
}

function credentialsContainer(environment: Environment, size: ContainerSize) {
  const identity = azureAccess(environment)
  return {
    name: 'egress-credentials',
    args: [CREDENTIALS_ROLE],
    ports: [{ name: 'health', containerPort: EGRESS_CREDENTIALS_HEALTH_PORT }],
    resources: containerResources(size),
    ...common(environment, {
      token: credentialsToken(),
      tokenFile: `${EGRESS_CREDENTIALS_TOKEN.mountPath}/${EGRESS_CREDENTIALS_TOKEN.file}`,
      env: {
        AGENTWEAVER_EGRESS_BROKER_SOCKET: SOCKET,
        AGENTWEAVER_EGRESS_HEALTH_PORT: String(EGRESS_CREDENTIALS_HEALTH_PORT),
        ...identity,
      },
      mounts: [
        socketMount(false),
        { name: CHECKS_VOLUME.name, mountPath: '/tmp' },
        ...(identity ? [exchangeToken().mount] : []),
      ],
    }),
  }
}

const rootsName = (slice: Environment['slice']) => `${workloads(slice).egressProxy.name}-roots`
const digestOf = (roots: readonly string[]) =>
  createHash('sha256').update(rootsText(roots)).digest('hex').slice(0, 16)

function addRoots(scope: Construct, { slice }: Environment, roots: readonly string[]): void {
  const { namespace } = workloads(slice).egressProxy
  const metadata = { name: rootsName(slice), namespace }
  new KubeConfigMap(scope, 'Roots', { metadata, data: { [ROOTS.file]: rootsText(roots) } })
}

/** The full name, so that it needs no search domain. */
function controlUrl({ slice }: Environment): string {
  const { name, namespace } = workloads(slice).egressControl
  return `http://${name}.${namespace}.svc.cluster.local:${EGRESS_CONTROL_PORT}`
}
