import { IDENTITY_AUDIENCE } from '../../contracts/configure.ts'
import { CONTAINERS, EXECUTOR_KEYS, WORKSPACE_MOUNT } from '../../contracts/names.ts'
import { IDENTITY_TOKEN, POD_HOMES, POD_USERS } from '../../contracts/pod.ts'
import { AGENT_HOST_PORT } from '../../contracts/ports.ts'
import { AGENT_HOST_IMAGE, SANDBOX_TOOLBOX_IMAGE } from '../images/pod-images.ts'

export const KEYS_MAP = 'executor-keys'

export interface SandboxPodParts {
  /** `gvisor`, or undefined for runc. */
  readonly runtimeClassName?: string | undefined
  /** How the offline runner is kept off the network: see `AGENTWEAVER_RUNNER_OFFLINE`. */
  readonly offline?: 'auto' | 'namespace' | 'filter'
  /** Permits new namespaces, as the kernel of a virtual machine does. */
  readonly withoutSeccomp?: boolean
  readonly terminationGracePeriodSeconds?: number
}

/** A sandbox pod as described in `docs/pod.md`. */
export function sandboxPodSpec(parts: SandboxPodParts = {}) {
  const { offline = 'auto', withoutSeccomp = false, terminationGracePeriodSeconds = 10 } = parts
  const env = (values: Record<string, string>) =>
    Object.entries(values).map(([name, value]) => ({ name, value }))
  const container = (name: string, image: string, user: number) => ({
    name,
    image,
    imagePullPolicy: 'IfNotPresent',
    resources: { requests: { cpu: '50m', memory: '64Mi' }, limits: { cpu: '2', memory: '1Gi' } },
    securityContext: {
      runAsUser: user,
      runAsGroup: POD_USERS.group,
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    },
  })
  const mount = (name: string, mountPath: string) => ({ name, mountPath })
  return {
    ...(parts.runtimeClassName !== undefined && { runtimeClassName: parts.runtimeClassName }),
    restartPolicy: 'Never',
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds,
    securityContext: {
      runAsNonRoot: true,
      fsGroup: POD_USERS.group,
      fsGroupChangePolicy: 'OnRootMismatch',
      seccompProfile: { type: withoutSeccomp ? 'Unconfined' : 'RuntimeDefault' },
    },
    containers: [
      {
        ...container(CONTAINERS.agentHost, AGENT_HOST_IMAGE, POD_USERS.agentHost),
        ports: [{ name: 'agent-host', containerPort: AGENT_HOST_PORT }],
        readinessProbe: { httpGet: { path: '/healthz', port: AGENT_HOST_PORT }, periodSeconds: 1 },
        env: [
          { name: 'AGENT_HOST_INSTANCE_ID', valueFrom: { fieldRef: { fieldPath: 'metadata.uid' } } },
          ...env({
            AGENT_HOST_PORT: String(AGENT_HOST_PORT),
            AGENT_HOST_JWKS_FILE: `${EXECUTOR_KEYS.mountPath}/${EXECUTOR_KEYS.file}`,
            AGENT_HOST_IDENTITY_TOKEN_FILE: `${IDENTITY_TOKEN.mountPath}/${IDENTITY_TOKEN.file}`,
            AGENT_HOST_STATE_DIR: POD_HOMES.agentHost,
          }),
        ],
        volumeMounts: [
          { ...mount('keys', EXECUTOR_KEYS.mountPath), readOnly: true },
          { ...mount('identity', IDENTITY_TOKEN.mountPath), readOnly: true },
          mount('agent-host-home', POD_HOMES.agentHost),
          mount('agent-host-tmp', '/tmp'),
        ],
      },
      {
        ...container(CONTAINERS.toolbox, SANDBOX_TOOLBOX_IMAGE, POD_USERS.toolbox),
        env: env({
          AGENTWEAVER_RUNNER_ROLE: 'online',
          AGENTWEAVER_RUNNER_WORKSPACE: WORKSPACE_MOUNT,
          AGENTWEAVER_RUNNER_OFFLINE: offline,
        }),
        volumeMounts: [
          mount('workspace', WORKSPACE_MOUNT),
          mount('toolbox-home', POD_HOMES.toolbox),
          mount('toolbox-tmp', '/tmp'),
        ],
      },
    ],
    volumes: VOLUMES,
  }
}

const VOLUMES = [
  { name: 'keys', configMap: { name: KEYS_MAP } },
  {
    name: 'identity',
    projected: {
      sources: [
        {
          serviceAccountToken: {
            audience: IDENTITY_AUDIENCE,
            expirationSeconds: IDENTITY_TOKEN.lifetimeSeconds,
            path: IDENTITY_TOKEN.file,
          },
        },
      ],
    },
  },
  ...['agent-host-home', 'agent-host-tmp', 'toolbox-home', 'toolbox-tmp', 'workspace'].map((name) => ({
    name,
    emptyDir: { sizeLimit: '256Mi' },
  })),
]
