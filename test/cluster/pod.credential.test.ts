import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CONTAINERS } from '../../contracts/names.ts'
import { sandboxPodSpec } from '../../devcluster/client/sandbox-pod-spec.ts'
import { keyPair } from '../agent-host/host-rig.ts'
import { describeWith } from './helpers/features.ts'
import { useNamespace } from './helpers/namespace.ts'
import { startPodAzure } from './helpers/pod-azure.ts'
import { execInPod, waitUntilPodReady } from './helpers/pods.ts'
import { podAccess, writeExecutorKeys } from './helpers/sandbox-pod.ts'

const NAME = `ghtok-user--${'a'.repeat(52)}`
const CANARY = `canary-${randomBytes(16).toString('hex')}`
const ACCOUNT = 'agentweaver-agent-host'

describe.each([
  ['runc', undefined],
  ['gvisor', 'gvisor'],
] as const)('under %s', (_runtime, runtimeClassName) => {
  const features = ['real node', 'audit log', ...(runtimeClassName ? [runtimeClassName] : [])] as const
  describeWith(features, "the credential of a pod's run", () => {
    const space = useNamespace('credential')
    const key = keyPair()
    let azure: Awaited<ReturnType<typeof startPodAzure>>

    beforeAll(async () => {
      await writeExecutorKeys(space, { k1: key })
      for (const name of [ACCOUNT, 'somebody-else'])
        await space.client.create({
          apiVersion: 'v1',
          kind: 'ServiceAccount',
          metadata: { name, namespace: space.name },
        })
      const { client, name: namespace } = space
      azure = await startPodAzure({ client, namespace, account: ACCOUNT, secrets: { [NAME]: CANARY } })
    })
    afterAll(() => azure?.stop())

    async function startPod(serviceAccountName = ACCOUNT, audience?: string) {
      const name = space.unique('pod')
      await space.client.create({
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name, namespace: space.name },
        spec: { ...azure.withIdentity(sandboxPodSpec({ runtimeClassName }), audience), serviceAccountName },
      })
      return podAccess(await waitUntilPodReady(space, name), key)
    }

    const change = { credential: { kind: 'keyVault', secretName: NAME } } as const

    it('is read from the vault with the projected token of the kubelet', async () => {
      const pod = await startPod()

      await pod.configure(change)
      const look = 'env; cat /proc/*/environ; ls -R /var/run/secrets 2>&1; true'
      const toolbox = { name: pod.name, container: CONTAINERS.toolbox }
      const { code, output } = await execInPod(space, toolbox, ['sh', '-c', look])

      expect(code).toBe(0)
      expect(output).toContain('AGENTWEAVER_RUNNER')
      expect(output).not.toContain(CANARY)
      expect(output).not.toContain('azure')
      await pod.client.close()
    })

    it.each([
      ['of another service account', 'somebody-else', undefined],
      ['for another audience', ACCOUNT, 'agentweaver-api'],
    ])('is rejected for a pod with a token %s', async (_what, account, audience) => {
      const pod = await startPod(account, audience)

      const configured = pod.configure(change)

      await expect(configured).rejects.toMatchObject({ code: 'credential_forbidden' })
      await pod.client.close()
    })
  })
})
