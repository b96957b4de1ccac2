import { randomUUID } from 'node:crypto'
import { get } from 'node:https'
import { json } from 'node:stream/consumers'
import type { JSONWebKeySet } from 'jose'
import { inject } from 'vitest'
import type { KubeClient } from '../../../devcluster/client/kube-client.ts'
import { readKubeconfig } from '../../../devcluster/client/kubeconfig.ts'
import type { sandboxPodSpec } from '../../../devcluster/client/sandbox-pod-spec.ts'
import { planAddresses } from '../../../devcluster/host/addresses.ts'
import { readState } from '../../../devcluster/host/run-folder.ts'
import { startAzureProcess } from './azure-process.ts'

const LOGIN = 'login.microsoftonline.com'
const VAULT = 'aw-users.vault.azure.net'
const TOKEN_FOLDER = '/var/run/secrets/azure/tokens'
const TRUST_FOLDER = '/etc/agentweaver/trust'
const TRUST = 'trust'

type PodSpec = ReturnType<typeof sandboxPodSpec>

type PodAzureOptions = {
  readonly client: KubeClient
  readonly namespace: string
  /** The only service account that the fake Entra accepts. */
  readonly account: string
  readonly secrets: Readonly<Record<string, string>>
  /** Ports of plaintext servers on this machine, by additional host name. */
  readonly fronts?: Readonly<Record<string, number>>
}

/**
 * Starts a fake Entra and a fake vault that trust this cluster's issuer, and returns the settings that a pod needs to
 * use them.
 */
export async function startPodAzure({ client, namespace, account, secrets, fronts = {} }: PodAzureOptions) {
  const [clientId, tenantId] = [randomUUID(), randomUUID()]
  const { issuer } = await readIssuer<{ issuer: string }>('/.well-known/openid-configuration')
  const jwks = await readIssuer<JSONWebKeySet>('/openid/v1/jwks')
  const azure = await startAzureProcess({
    tenantId,
    loginHost: LOGIN,
    vaultHost: VAULT,
    federated: [{ clientId, issuer, subject: `system:serviceaccount:${namespace}:${account}` }],
    issuers: { [issuer]: { keys: jwks.keys.map((jwk) => ({ ...jwk })) } },
    roles: { [clientId]: ['getSecret'] },
    secrets: { ...secrets },
    fronts: { ...fronts },
    host: planAddresses(readState(inject('cluster').folder)?.slot ?? 0).host,
  })
  await client.create({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: TRUST, namespace },
    data: { 'ca.pem': azure.authority },
  })
  const env = {
    AGENT_HOST_VAULT_URL: `https://${VAULT}`,
    AGENT_HOST_AZURE_CLIENT_ID: clientId,
    AGENT_HOST_AZURE_TENANT_ID: tenantId,
    AGENT_HOST_AZURE_TOKEN_FILE: `${TOKEN_FOLDER}/azure-identity-token`,
    NODE_EXTRA_CA_CERTS: `${TRUST_FOLDER}/ca.pem`,
    SSL_CERT_FILE: `${TRUST_FOLDER}/ca.pem`,
    HTTPS_PROXY: azure.proxy,
  }
  return {
    stop: () => azure.stop(),
    /** A sandbox pod with an Azure identity. Only `agent-host` has the token. */
    withIdentity(spec: PodSpec, audience = 'api://AzureADTokenExchange', more: Record<string, string> = {}) {
      const [agentHost, ...others] = spec.containers
      const token = { audience, expirationSeconds: 3600, path: 'azure-identity-token' }
      const entries = Object.entries({ ...env, ...more }).map(([name, value]) => ({ name, value }))
      const mounts = [
        { name: 'azure', mountPath: TOKEN_FOLDER, readOnly: true },
        { name: TRUST, mountPath: TRUST_FOLDER, readOnly: true },
      ]
      return {
        ...spec,
        containers: [
          {
            ...agentHost,
            env: [...(agentHost?.env ?? []), ...entries],
            volumeMounts: [...(agentHost?.volumeMounts ?? []), ...mounts],
          },
          ...others,
        ],
        volumes: [
          ...spec.volumes,
          { name: 'azure', projected: { sources: [{ serviceAccountToken: token }] } },
          { name: TRUST, configMap: { name: TRUST } },
        ],
      }
    },
  }
}

/** The cluster's OIDC discovery documents, for verifiers of its tokens. */
function readIssuer<T>(path: string): Promise<T> {
  const { server, ca, cert, key } = readKubeconfig(inject('cluster').kubeconfig)
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  get(
    server + path,
    { ca, cert, key },
    (response) => void json(response).then((body) => resolve(body as T), reject),
  ).on('error', reject)
  return promise
}
