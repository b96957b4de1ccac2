import { createHash } from 'node:crypto'
import { ServiceAccount } from 'cdk8s-plus-28'
import { Construct } from 'constructs'
import { type DatabaseSetupEnv, MAINTENANCE_DATABASE } from '../../contracts/database-setup-env.ts'
import { names } from '../../contracts/names.ts'
import { DATABASE_SETUP_SIZE } from '../environment/pod-needs.ts'
import type { Environment } from '../environment/schema.ts'
import { type JobSpec, KubeJob, Quantity } from '../imports/k8s.js'
import { clusterNames, workloads } from '../workloads.ts'
import { azureLogin } from './api-env.ts'
import { toEnvVars } from './env-vars.ts'
import { containerResources } from './quantities.ts'
import { exchangeToken } from './token-volumes.ts'

const USER = 1001
const GROUP = 1000
/** The database needs minutes to accept a new administrator, and DNS needs minutes to resolve a new name. */
const TRIES = 8
const DEADLINE_SECONDS = 1800
const PROGRAM = ['/usr/local/bin/node', '/opt/agentweaver/api/database-setup.mjs']

export interface DatabaseSetupProps {
  readonly environment: Environment
}

/**
 * The Job that creates the API's database role before the API is applied. A Job is immutable, so its name
 * ends with a hash of its spec: a changed image or setting renders a new Job, and the GitOps controller
 * prunes the old one.
 * Rendered only on Azure and not in previews. Elsewhere an operator creates the role (docs/deployment.md).
 */
export class DatabaseSetup extends Construct {
  constructor(scope: Construct, id: string, { environment }: DatabaseSetupProps) {
    super(scope, id)
    const env = setupEnv(environment)
    if (env === undefined) return
    const { name, namespace } = workloads(environment.slice).databaseSetup
    new ServiceAccount(this, 'ServiceAccount', { metadata: { name, namespace }, automountToken: false })
    const spec = jobSpec(environment, env)
    new KubeJob(this, 'Job', { metadata: { name: `${name}-${hashOf(spec)}`, namespace }, spec })
  }
}

function hashOf(spec: JobSpec): string {
  const text = JSON.stringify(spec, (_, value) => (value instanceof Quantity ? value.value : value))
  return createHash('sha256').update(text).digest('hex').slice(0, 8)
}

type SetupEnv = Record<keyof DatabaseSetupEnv, string>

/**
 * The role must be the one that the API logs in as (`api-env.ts`). Both take it from `names()` in contracts.
 */
function setupEnv({ infra, slice }: Environment): SetupEnv | undefined {
  const { database, azure } = infra
  if (azure?.databaseSetup === undefined) return undefined
  const { clientId, role, apiObjectId } = azure.databaseSetup
  return {
    AGENTWEAVER_DATABASE_NAME: database.name,
    AGENTWEAVER_DATABASE_ROLE: names(slice).serviceAccounts.api,
    AGENTWEAVER_DATABASE_ROLE_OBJECT_ID: apiObjectId,
    DATABASE_URL: `postgresql://${role}@${database.host}:${database.port}/${MAINTENANCE_DATABASE}?sslmode=verify-full`,
    ...azureLogin(azure, clientId),
  }
}

function jobSpec({ images, slice }: Environment, env: SetupEnv): JobSpec {
  const { name, labels } = workloads(slice).databaseSetup
  const token = exchangeToken()
  return {
    backoffLimit: TRIES,
    activeDeadlineSeconds: DEADLINE_SECONDS,
    template: {
      metadata: { labels: { ...labels } },
      spec: {
        serviceAccountName: name,
        automountServiceAccountToken: false,
        enableServiceLinks: false,
        restartPolicy: 'Never',
        priorityClassName: clusterNames().priorityClasses.controlPlane,
        securityContext: {
          runAsNonRoot: true,
          runAsUser: USER,
          runAsGroup: GROUP,
          fsGroup: GROUP,
          seccompProfile: { type: 'RuntimeDefault' },
        },
        containers: [
          {
            name: 'database-setup',
            image: images.api,
            imagePullPolicy: 'IfNotPresent',
            command: [...PROGRAM],
            env: toEnvVars<keyof DatabaseSetupEnv>(env),
            resources: containerResources(DATABASE_SETUP_SIZE),
            securityContext: {
              allowPrivilegeEscalation: false,
              capabilities: { drop: ['ALL'] },
              privileged: false,
              readOnlyRootFilesystem: true,
              runAsNonRoot: true,
              seccompProfile: { type: 'RuntimeDefault' },
            },
            volumeMounts: [token.mount],
          },
        ],
        volumes: [token.volume],
      },
    },
  }
}
