import type { Construct } from 'constructs'
import { EGRESS_CONTROL_TOKEN, type EgressProxyEnv } from '../../contracts/egress-proxy-env.ts'
import { EGRESS_CONTROL_PORT, EGRESS_HEALTH_PORT, EGRESS_PROXY_PORT } from '../../contracts/ports.ts'
import { EGRESS_PROXY_ROUTES } from '../../contracts/routes.ts'
import type { Environment } from '../environment/schema.ts'
import { workloads } from '../workloads.ts'
import { toEnvVars } from './env-vars.ts'
import { containerResources, mib } from './quantities.ts'
import { ServiceDeployment } from './service-deployment.ts'
import { controlToken } from './token-volumes.ts'

/** Must exceed the 25 s for which a replica that stops keeps its open connections, and the drain before. */
const GRACE_SECONDS = 40

type Size = NonNullable<Environment['sizes']['egressProxy']>

export interface EgressProxyDeploymentProps {
  readonly environment: Environment
  readonly size: Size
}

/** The egress proxy: the only pods of the product that may connect to the internet. They hold no Kubernetes credential. */
export class EgressProxyDeployment extends ServiceDeployment {
  constructor(scope: Construct, id: string, { environment, size }: EgressProxyDeploymentProps) {
    super(scope, id, {
      workload: workloads(environment.slice).egressProxy,
      size,
      pod: {
        automountServiceAccountToken: false,
        // Looks up each name as it is written. Search domains would tell the cluster's resolver other names first.
        dnsConfig: { options: [{ name: 'ndots', value: '1' }] },
        terminationGracePeriodSeconds: GRACE_SECONDS,
        volumes: [
          { name: 'tmp', emptyDir: { sizeLimit: mib(size.container.ephemeralMib) } },
          controlToken().volume,
        ],
      },
      container: container(environment, size),
      probes: {
        port: EGRESS_HEALTH_PORT,
        healthz: EGRESS_PROXY_ROUTES.healthz,
        readyz: { path: EGRESS_PROXY_ROUTES.readyz, periodSeconds: 2, failureThreshold: 2 },
      },
    })
  }
}

function container(environment: Environment, size: Size) {
  return {
    name: 'egress-proxy',
    image: environment.images.egressProxy,
    ports: [
      { name: 'proxy', containerPort: EGRESS_PROXY_PORT },
      { name: 'metrics', containerPort: EGRESS_HEALTH_PORT },
    ],
    env: toEnvVars<keyof EgressProxyEnv>({
      AGENTWEAVER_EGRESS_CONTROL_URL: controlUrl(environment),
      AGENTWEAVER_EGRESS_CONTROL_TOKEN_FILE: `${EGRESS_CONTROL_TOKEN.mountPath}/${EGRESS_CONTROL_TOKEN.file}`,
    }),
    resources: containerResources(size.container),
    volumeMounts: [{ name: 'tmp', mountPath: '/tmp' }, controlToken().mount],
  }
}

/** The full name, so that it needs no search domain. */
function controlUrl({ slice }: Environment): string {
  const { name, namespace } = workloads(slice).egressControl
  return `http://${name}.${namespace}.svc.cluster.local:${EGRESS_CONTROL_PORT}`
}
