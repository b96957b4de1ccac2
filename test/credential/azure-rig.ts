import { generateKeyPairSync, type KeyObject, randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { exportJWK, SignJWT } from 'jose'
import { onTestFinished, vi } from 'vitest'
import type { AzureSettings } from '../../runtime/agent-host/credential/azure-settings.ts'
import { startEntra } from '../fakes/entra.ts'
import { type KeyVaultOptions, startKeyVault } from '../fakes/key-vault.ts'
import { startNameProxy } from '../fakes/name-proxy.ts'
import { createTestAuthority, type TestAuthority } from '../fakes/test-authority.ts'

const LOGIN_HOST = 'login.microsoftonline.com'
const VAULT_HOST = 'aw-users.vault.azure.net'
export const ISSUER = 'https://oidc.test/cluster-1'
export const SUBJECT = 'system:serviceaccount:agentweaver-sandboxes:agentweaver-agent-host'
export const aSecretName = (letter = 'a') => `ghtok-user--${letter.repeat(52)}`

export interface ClusterToken {
  readonly issuer?: string
  readonly subject?: string
  readonly audience?: string
  readonly expiresIn?: string
  readonly key?: KeyObject
}

const cluster = generateKeyPairSync('rsa', { modulusLength: 2048 })

interface AzureRigOptions {
  readonly tokenSeconds?: number
  /** The service account whose token is projected. @default the one of AgentHost */
  readonly subject?: string
  /** Who signs the certificates that this process trusts. @default a new one */
  readonly authority?: TestAuthority
  readonly onToken?: (token: string, audience: string) => Promise<void>
  /** The authority that signed a server's certificate, if AgentHost does not trust it. */
  readonly tls?: { readonly entra?: TestAuthority; readonly vault?: TestAuthority }
  /** The name in a server's certificate, if it is wrong. */
  readonly names?: { readonly entra?: string; readonly vault?: string }
  /** What the identity may do in the vault. @default get a secret */
  readonly may?: KeyVaultOptions['roles'][string]
}

/** A pod's view of Azure: its token in a file, Entra and a vault behind the names that they have everywhere. */
export async function startAzure({
  tls = {},
  names = {},
  authority = createTestAuthority(),
  may = ['getSecret'],
  subject = SUBJECT,
  ...options
}: AzureRigOptions = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-azure-'))
  const clusterJwk = { ...(await exportJWK(cluster.publicKey)), kid: 'cluster-1', alg: 'RS256' }
  const clientId = randomUUID()
  const readerId = randomUUID()
  const tenantId = randomUUID()
  const entra = await startEntra({
    ...options,
    tls: (tls.entra ?? authority).serverFor(names.entra ?? LOGIN_HOST),
    tenantId,
    authority: `https://${LOGIN_HOST}`,
    federated: [clientId, readerId].map((id) => ({ clientId: id, issuer: ISSUER, subject })),
    issuerKeys: async () => ({ keys: [clusterJwk] }),
  })
  const vault = await startKeyVault({
    tls: (tls.vault ?? authority).serverFor(names.vault ?? VAULT_HOST),
    url: `https://${VAULT_HOST}`,
    tenantId,
    authority: `https://${LOGIN_HOST}`,
    tokens: { issuer: entra.issuer, keys: async () => entra.jwks },
    roles: { [clientId]: may, [readerId]: ['getSecret'] },
  })
  const proxy = await startNameProxy(
    new Map([
      [LOGIN_HOST, entra.port],
      [VAULT_HOST, vault.port],
    ]),
  )
  const trusted = getCACertificates('default')
  setDefaultCACertificates([...trusted, authority.certificate])
  vi.stubEnv('HTTPS_PROXY', proxy.url)
  onTestFinished(async () => {
    vi.unstubAllEnvs()
    setDefaultCACertificates(trusted)
    await Promise.all([entra.close(), vault.close(), proxy.close()])
    rmSync(folder, { recursive: true, force: true })
  })

  const tokenFile = join(folder, 'azure-identity-token')
  /** Projects a service account token, as the kubelet does. */
  const project = async (token: ClusterToken = {}) => {
    const signed = await new SignJWT({ 'kubernetes.io': { namespace: 'agentweaver-sandboxes' } })
      .setProtectedHeader({ alg: 'RS256', kid: 'cluster-1' })
      .setIssuer(token.issuer ?? ISSUER)
      .setSubject(token.subject ?? subject)
      .setAudience(token.audience ?? 'api://AzureADTokenExchange')
      .setIssuedAt(Math.floor(Date.now() / 1000) - 3600)
      .setExpirationTime(token.expiresIn ?? '1h')
      .sign(token.key ?? cluster.privateKey)
    writeFileSync(tokenFile, signed)
  }
  await project()
  const settings: AzureSettings = {
    identity: { clientId, tenantId, authority: `https://${LOGIN_HOST}`, tokenFile },
    vaultUrl: `https://${VAULT_HOST}`,
  }
  /** Another identity, which may get secrets and nothing else. */
  const reader = { ...settings.identity, clientId: readerId }
  return { settings, reader, entra, vault, proxy, project, authority, tokenFile }
}

export type Azure = Awaited<ReturnType<typeof startAzure>>
