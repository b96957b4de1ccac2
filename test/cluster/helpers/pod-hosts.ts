import { once } from 'node:events'
import { createConnection } from 'node:net'
import type { JWK } from 'jose'
import { beforeAll } from 'vitest'
import { IdentityReply } from '../../../contracts/configure.ts'
import { EXECUTOR_KEYS, WORKSPACE_MOUNT } from '../../../contracts/names.ts'
import { AGENT_HOST_PORT } from '../../../contracts/ports.ts'
import { AGENT_HOST_ROUTES } from '../../../contracts/routes.ts'
import { KEYS_MAP, sandboxPodSpec } from '../../../devcluster/client/sandbox-pod-spec.ts'
import type { ConnectionGuard } from '../../../runtime/agent-host-client/connection-guard.ts'
import { keyPair } from '../../agent-host/host-rig.ts'
import { testAgentHost } from '../../conformance/agent-host.ts'
import type { HostUnderTest } from '../../conformance/agent-host-cases/host.ts'
import { describeWith } from './features.ts'
import { useNamespace } from './namespace.ts'
import { waitUntilPodReady } from './pods.ts'
import { writeExecutorKeys } from './sandbox-pod.ts'

/**
 * The identity suite tests the verification itself. This guard only checks that the identity is requested first on each
 * connection.
 */
const asking: ConnectionGuard = {
  verify: async (connection) => {
    const { body } = await connection.get(AGENT_HOST_ROUTES.identity)
    IdentityReply.parse(JSON.parse(body))
  },
}

/** The whole kit against AgentHosts in pods of one runtime, as a control plane reaches them. */
export function testAgentHostInPods(runtime: 'runc' | 'gvisor'): void {
  describeWith(['real node', ...(runtime === 'gvisor' ? (['gvisor'] as const) : [])], 'in a pod', () => {
    const space = useNamespace(`kit-${runtime}`)
    const privateKey = keyPair()
    const pods = { apiVersion: 'v1', plural: 'pods', namespace: space.name }
    beforeAll(() => writeExecutorKeys(space, { k1: privateKey }))

    async function startPod(): Promise<HostUnderTest> {
      const name = space.unique('host')
      await space.client.create({
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name, namespace: space.name },
        spec: sandboxPodSpec({ runtimeClassName: runtime === 'gvisor' ? runtime : undefined }),
      })
      const pod = await waitUntilPodReady(space, name)
      const address = String(pod['status'].podIP)
      return {
        instanceId: pod.metadata.uid ?? '',
        address: { baseUrl: `http://${address}:${AGENT_HOST_PORT}`, guard: asking },
        connect: async () => {
          const socket = createConnection(AGENT_HOST_PORT, address)
          await once(socket, 'connect')
          return socket.on('error', () => undefined)
        },
        workingDirectory: WORKSPACE_MOUNT,
        close: async () => {
          await space.client.delete({ ...pods, name }, { gracePeriodSeconds: 0 })
        },
      }
    }

    /** Writes the ConfigMap as charts do. The kubelet syncs a pod, and its volumes, when the pod changes. */
    async function publish(keys: readonly JWK[]): Promise<void> {
      await space.client.apply({
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: { name: KEYS_MAP, namespace: space.name },
        data: { [EXECUTOR_KEYS.file]: JSON.stringify({ keys }) },
      })
      const annotations = { 'agentweaver.io/looked-at': String(Date.now()) }
      for (const { metadata } of (await space.client.list(pods)).items)
        await space.client.mergePatch({ ...pods, name: metadata.name }, { metadata: { annotations } })
    }

    testAgentHost({
      name: `an AgentHost in a pod under ${runtime}`,
      start: startPod,
      keys: () => ({ kid: 'k1', privateKey, publish }),
      hasIdentity: true,
    })
  })
}
