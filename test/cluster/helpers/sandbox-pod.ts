import { exportJWK } from 'jose'
import type { ConfigureRequestInput } from '../../../contracts/configure.ts'
import { IDENTITY_AUDIENCE } from '../../../contracts/configure.ts'
import { CONTAINERS, EXECUTOR_KEYS, WORKSPACE_MOUNT } from '../../../contracts/names.ts'
import { IDENTITY_TOKEN, POD_HOMES, POD_USERS } from '../../../contracts/pod.ts'
import { AGENT_HOST_PORT } from '../../../contracts/ports.ts'
import { createAgentHostClient } from '../../../runtime/agent-host-client/client.ts'
import { signTicket } from '../../../runtime/api/keys/ticket.ts'
import { aConfiguration, keyPair, TOKEN } from '../../agent-host/host-rig.ts'
import type { KubeObject } from '../../kube/client/kube-object.ts'
import { AGENT_HOST_IMAGE, SANDBOX_TOOLBOX_IMAGE } from '../../kube/images/pod-images.ts'
import type { TestNamespace } from './namespace.ts'
import { waitUntilPodReady } from './pods.ts'

const KEYS_MAP = 'executor-keys'
const never = new AbortController().signal

export interface SandboxPodParts {
  /** `gvisor`, or undefined for the node's own runtime. */
  readonly runtimeClassName?: string | undefined
  /** How the offline runner does without a network. */
  readonly offline?: 'auto' | 'namespace' | 'filter'
  /** Stands for a runtime that permits namespaces, as a virtual machine's does. */
  readonly withoutSeccomp?: boolean
  readonly restartPolicy?: string
}

/** A sandbox pod as `docs/pod.md` says. */
export function sandboxPodSpec(parts: SandboxPodParts = {}) {
  const { runtimeClassName, offline = 'auto', withoutSeccomp = false } = parts
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
    ...(runtimeClassName !== undefined && { runtimeClassName }),
    restartPolicy: 'Never',
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: 10,
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
    volumes: [
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
    ],
  }
}

/** The keys of a control plane that a namespace of pods trusts, by id. */
export async function writeExecutorKeys(
  space: TestNamespace,
  keys: Readonly<Record<string, ReturnType<typeof keyPair>>>,
): Promise<void> {
  const jwks = await Promise.all(
    Object.entries(keys).map(async ([kid, key]) => {
      const { d: _private, ...jwk } = await exportJWK(key)
      return { ...jwk, kid, alg: 'EdDSA', use: 'sig' }
    }),
  )
  await space.client.apply({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: KEYS_MAP, namespace: space.name },
    data: { [EXECUTOR_KEYS.file]: JSON.stringify({ keys: jwks }) },
  })
}

export type SandboxPod = Awaited<ReturnType<typeof startSandboxPod>>

/** A sandbox pod in standby, and a caller that holds the ticket key. */
export async function startSandboxPod(space: TestNamespace, name: string, parts: SandboxPodParts = {}) {
  const key = keyPair()
  await writeExecutorKeys(space, { k1: key })
  await space.client.create({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: space.name },
    spec: sandboxPodSpec(parts),
  })
  const pod = await waitUntilPodReady(space, name)
  return podAccess(pod, key)
}

/** What a control plane does with a pod that it was given; who the pod is, is another suite's question. */
export function podAccess(pod: KubeObject, privateKey: ReturnType<typeof keyPair>) {
  const { name, uid = '' } = pod.metadata
  const baseUrl = `http://${pod['status'].podIP}:${AGENT_HOST_PORT}`
  const client = createAgentHostClient({ baseUrl, guard: { verify: async () => undefined } }, TOKEN)
  const ticketFor = async (request: ConfigureRequestInput, { kid, key } = { kid: 'k1', key: privateKey }) => {
    const body = Buffer.from(JSON.stringify(request))
    const now = new Date()
    return {
      body,
      ticket: await signTicket(
        { kid, privateKey: key },
        { instanceId: uid, runId: request.runId, body, now },
      ),
    }
  }
  return {
    name,
    uid,
    baseUrl,
    client,
    ticketFor,
    async configure(change: Partial<ConfigureRequestInput> = {}, session?: Uint8Array) {
      const request = aConfiguration(change)
      const { body, ticket } = await ticketFor(request)
      const { runId, generation } = request
      await client.configure({ runId, generation, ticket, body, signal: never, ...(session && { session }) })
    },
  }
}
