import { once } from 'node:events'
import { createConnection } from 'node:net'
import { beforeAll } from 'vitest'
import { IdentityReply } from '../../contracts/configure.ts'
import { WORKSPACE_MOUNT } from '../../contracts/names.ts'
import { AGENT_HOST_PORT } from '../../contracts/ports.ts'
import { AGENT_HOST_ROUTES } from '../../contracts/routes.ts'
import type { ConnectionGuard } from '../../runtime/agent-host-client/connection-guard.ts'
import { keyPair } from '../agent-host/host-rig.ts'
import { testAgentHost } from '../conformance/agent-host.ts'
import type { HostUnderTest } from '../conformance/agent-host-cases/host.ts'
import { describeWith } from './helpers/features.ts'
import { useNamespace } from './helpers/namespace.ts'
import { waitUntilPodReady } from './helpers/pods.ts'
import { writeExecutorKeys } from './helpers/sandbox-pod.ts'
import { sandboxPodSpec } from './helpers/sandbox-pod-spec.ts'

/** Who answers is the identity suite's question; that it is asked first, on each connection, holds here too. */
const asking: ConnectionGuard = {
  verify: async (connection) => {
    const { body } = await connection.get(AGENT_HOST_ROUTES.identity)
    IdentityReply.parse(JSON.parse(body))
  },
}

describeWith(['real node'], 'in a pod', () => {
  const space = useNamespace('conformance')
  const privateKey = keyPair()
  beforeAll(() => writeExecutorKeys(space, { k1: privateKey }))

  async function startPod(): Promise<HostUnderTest> {
    const name = space.unique('host')
    const path = { apiVersion: 'v1', plural: 'pods', namespace: space.name, name }
    await space.client.create({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, namespace: space.name },
      spec: sandboxPodSpec(),
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
        await space.client.delete(path, { gracePeriodSeconds: 0 })
      },
    }
  }

  testAgentHost({
    name: 'an AgentHost in a pod',
    start: startPod,
    keys: () => ({ kid: 'k1', privateKey }),
    hasIdentity: true,
    // Clocks and bodies are the same code here; each would cost a pod of its own.
    only: [
      'tickets',
      'one configuration',
      'requests that are not what they seem',
      'the guard',
      'decisions',
      'turns',
      'commands',
      'streams',
    ],
  })
})
