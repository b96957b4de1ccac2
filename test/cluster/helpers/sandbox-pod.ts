import { exportJWK } from 'jose'
import type { ConfigureRequestInput } from '../../../contracts/configure.ts'
import { EXECUTOR_KEYS } from '../../../contracts/names.ts'
import { AGENT_HOST_PORT } from '../../../contracts/ports.ts'
import type { KubeObject } from '../../../devcluster/client/kube-object.ts'
import {
  KEYS_MAP,
  type SandboxPodParts,
  sandboxPodSpec,
} from '../../../devcluster/client/sandbox-pod-spec.ts'
import { createAgentHostClient } from '../../../runtime/agent-host-client/client.ts'
import { signTicket } from '../../../runtime/api/keys/ticket.ts'
import { aConfiguration, keyPair, TOKEN } from '../../agent-host/host-rig.ts'
import type { TestNamespace } from './namespace.ts'
import { waitUntilPodReady } from './pods.ts'

const never = new AbortController().signal

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

/** A sandbox pod in standby, and a caller with the ticket key. */
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

/** The requests of a control plane to its pod. Another suite tests the pod's identity. */
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
