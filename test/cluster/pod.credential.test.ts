import { randomBytes, randomUUID } from 'node:crypto'
import { get } from 'node:https'
import { json } from 'node:stream/consumers'
import type { JSONWebKeySet } from 'jose'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { CONTAINERS } from '../../contracts/names.ts'
import { keyPair } from '../agent-host/host-rig.ts'
import { readKubeconfig } from '../kube/client/kubeconfig.ts'
import { planAddresses } from '../kube/host/addresses.ts'
import { readState } from '../kube/host/run-folder.ts'
import { type AzureProcess, startAzureProcess } from './helpers/azure-process.ts'
import { describeWith } from './helpers/features.ts'
import { useNamespace } from './helpers/namespace.ts'
import { execInPod, waitUntilPodReady } from './helpers/pods.ts'
import { podAccess, writeExecutorKeys } from './helpers/sandbox-pod.ts'
import { sandboxPodSpec } from './helpers/sandbox-pod-spec.ts'

const LOGIN = 'login.microsoftonline.com'
const VAULT = 'aw-users.vault.azure.net'
const TOKEN_FOLDER = '/var/run/secrets/azure/tokens'
const TRUST_FOLDER = '/etc/agentweaver/trust'
const NAME = `ghtok-user--${'a'.repeat(52)}`
const CANARY = `canary-${randomBytes(16).toString('hex')}`
const ACCOUNT = 'agentweaver-agent-host'

/** What the cluster says of its issuer to those who verify its tokens. */
async function readIssuer<T>(path: string): Promise<T> {
  const { server, ca, cert, key } = readKubeconfig(inject('cluster').kubeconfig)
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  get(
    server + path,
    { ca, cert, key },
    (response) => void json(response).then((body) => resolve(body as T), reject),
  ).on('error', reject)
  return promise
}

type PodSpec = ReturnType<typeof sandboxPodSpec>

describe.each(['runc', 'gvisor'] as const)('under %s', (runtime) => {
  describeWith(
    ['real node', 'audit log', ...(runtime === 'gvisor' ? (['gvisor'] as const) : [])],
    "the credential of a pod's run",
    () => {
      const space = useNamespace(`credential-${runtime}`)
      const runtimeClassName = runtime === 'gvisor' ? runtime : undefined
      const clientId = randomUUID()
      const tenantId = randomUUID()
      const key = keyPair()
      let azure: AzureProcess

      beforeAll(async () => {
        await writeExecutorKeys(space, { k1: key })
        for (const name of [ACCOUNT, 'somebody-else'])
          await space.client.create({
            apiVersion: 'v1',
            kind: 'ServiceAccount',
            metadata: { name, namespace: space.name },
          })
        const { issuer } = await readIssuer<{ issuer: string }>('/.well-known/openid-configuration')
        const jwks = await readIssuer<JSONWebKeySet>('/openid/v1/jwks')
        const slot = readState(inject('cluster').folder)?.slot ?? 0
        azure = await startAzureProcess({
          tenantId,
          loginHost: LOGIN,
          vaultHost: VAULT,
          federated: [{ clientId, issuer, subject: `system:serviceaccount:${space.name}:${ACCOUNT}` }],
          issuers: { [issuer]: { keys: jwks.keys.map((jwk) => ({ ...jwk })) } },
          roles: { [clientId]: ['getSecret'] },
          secrets: { [NAME]: CANARY },
          host: planAddresses(slot).host,
        })
        await space.client.create({
          apiVersion: 'v1',
          kind: 'ConfigMap',
          metadata: { name: 'trust', namespace: space.name },
          data: { 'ca.pem': azure.authority },
        })
      })
      afterAll(() => azure?.stop())

      /** The sandbox pod with an Azure identity, whose token is in `agent-host` alone. */
      function withIdentity(spec: PodSpec, serviceAccountName: string, audience: string) {
        const env = {
          AGENT_HOST_VAULT_URL: `https://${VAULT}`,
          AGENT_HOST_AZURE_CLIENT_ID: clientId,
          AGENT_HOST_AZURE_TENANT_ID: tenantId,
          AGENT_HOST_AZURE_TOKEN_FILE: `${TOKEN_FOLDER}/azure-identity-token`,
          NODE_EXTRA_CA_CERTS: `${TRUST_FOLDER}/ca.pem`,
          HTTPS_PROXY: azure.proxy,
        }
        const [agentHost, ...others] = spec.containers
        const token = { audience, expirationSeconds: 3600, path: 'azure-identity-token' }
        return {
          ...spec,
          serviceAccountName,
          containers: [
            {
              ...agentHost,
              env: [
                ...(agentHost?.env ?? []),
                ...Object.entries(env).map(([name, value]) => ({ name, value })),
              ],
              volumeMounts: [
                ...(agentHost?.volumeMounts ?? []),
                { name: 'azure', mountPath: TOKEN_FOLDER, readOnly: true },
                { name: 'trust', mountPath: TRUST_FOLDER, readOnly: true },
              ],
            },
            ...others,
          ],
          volumes: [
            ...spec.volumes,
            { name: 'azure', projected: { sources: [{ serviceAccountToken: token }] } },
            { name: 'trust', configMap: { name: 'trust' } },
          ],
        }
      }

      async function startPod(account = ACCOUNT, audience = 'api://AzureADTokenExchange') {
        const name = space.unique('pod')
        await space.client.create({
          apiVersion: 'v1',
          kind: 'Pod',
          metadata: { name, namespace: space.name },
          spec: withIdentity(sandboxPodSpec({ runtimeClassName }), account, audience),
        })
        return podAccess(await waitUntilPodReady(space, name), key)
      }

      const change = { credential: { kind: 'keyVault', secretName: NAME } } as const

      it('is read from the vault with the token that the kubelet projected', async () => {
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
        ['of another service account', 'somebody-else', 'api://AzureADTokenExchange'],
        ['for another audience', ACCOUNT, 'agentweaver-api'],
      ])('is forbidden to a pod with a token %s', async (_what, account, audience) => {
        const pod = await startPod(account, audience)

        const configured = pod.configure(change)

        await expect(configured).rejects.toMatchObject({ code: 'credential_forbidden' })
        await pod.client.close()
      })
    },
  )
})
