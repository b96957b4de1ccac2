import type { Construct } from 'constructs'
import { names } from '../../contracts/names.ts'
import { API_PORT, EGRESS_CONTROL_PORT, METRICS_PORT } from '../../contracts/ports.ts'
import { API_ROUTES } from '../../contracts/routes.ts'
import type { Environment } from '../environment/schema.ts'
import type { Volume, VolumeMount } from '../imports/k8s.js'
import { workloads } from '../workloads.ts'
import { API_KEYS_FOLDER, API_STATE_FOLDER, apiEnv } from './api-env.ts'
import { CREDENTIALS_FOLDER, type PolicyFiles } from './policy-files.ts'
import { containerResources, mib } from './quantities.ts'
import { ServiceDeployment } from './service-deployment.ts'
import { exchangeToken } from './token-volumes.ts'

/** Must exceed the time in which the service closes its streams and hands over its runs. */
const GRACE_SECONDS = 120

export interface ApiDeploymentProps {
  readonly environment: Environment
  readonly policy: Pick<PolicyFiles, 'volume' | 'mount' | 'digest'>
}

/** Pod annotation. Its value changes with the policy files. */
const POLICY_ANNOTATION = 'agentweaver.io/policy'

/** The API Deployment, the only workload with a Kubernetes API credential. */
export class ApiDeployment extends ServiceDeployment {
  constructor(scope: Construct, id: string, { environment, policy }: ApiDeploymentProps) {
    super(scope, id, {
      workload: workloads(environment.slice).api,
      size: environment.sizes.api,
      annotations: { [POLICY_ANNOTATION]: policy.digest },
      pod: {
        automountServiceAccountToken: true,
        terminationGracePeriodSeconds: GRACE_SECONDS,
        volumes: [...volumes(environment), policy.volume],
      },
      container: container(environment, policy),
      probes: {
        port: API_PORT,
        healthz: API_ROUTES.healthz,
        readyz: { path: API_ROUTES.readyz, periodSeconds: 5, failureThreshold: 3 },
      },
    })
  }
}

function container(environment: Environment, policy: ApiDeploymentProps['policy']) {
  const { images, sizes, egress } = environment
  return {
    name: 'api',
    image: images.api,
    ports: [
      { name: 'http', containerPort: API_PORT },
      { name: 'metrics', containerPort: METRICS_PORT },
      ...(egress.mode === 'proxy' ? [{ name: 'egress', containerPort: EGRESS_CONTROL_PORT }] : []),
    ],
    env: Object.entries(apiEnv(environment)).map(([name, value]) => ({ name, value })),
    resources: containerResources(sizes.api.container),
    volumeMounts: [...volumeMounts(environment), policy.mount],
  }
}

const KEYS_VOLUME = 'keys'
const CREDENTIALS_VOLUME = 'credentials'

function volumes({ slice, egress, infra, sizes }: Environment): Volume[] {
  const sizeLimit = mib(sizes.api.container.ephemeralMib)
  // Without a vault another tool creates the Secret of this name: the tree contains no Secret.
  const { keysSecret, credentialsSecret } = names(slice)
  const keys = { name: KEYS_VOLUME, secret: { secretName: keysSecret, defaultMode: 0o440 } }
  const credentials = {
    name: CREDENTIALS_VOLUME,
    secret: { secretName: credentialsSecret, defaultMode: 0o440 },
  }
  return [
    { name: 'state', emptyDir: { sizeLimit } },
    { name: 'tmp', emptyDir: { sizeLimit } },
    infra.azure ? exchangeToken().volume : keys,
    ...(hasSecret(egress) ? [credentials] : []),
  ]
}

/** Whether values of the operator are in the Secret for credentials. */
const hasSecret = ({ credentials = [] }: Environment['egress']): boolean => credentials.length > 0

function volumeMounts({ egress, infra }: Environment): VolumeMount[] {
  return [
    { name: 'state', mountPath: API_STATE_FOLDER },
    { name: 'tmp', mountPath: '/tmp' },
    infra.azure ? exchangeToken().mount : { name: KEYS_VOLUME, mountPath: API_KEYS_FOLDER, readOnly: true },
    ...(hasSecret(egress)
      ? [{ name: CREDENTIALS_VOLUME, mountPath: CREDENTIALS_FOLDER, readOnly: true }]
      : []),
  ]
}
