import { IDENTITY_AUDIENCE } from '../../contracts/configure.ts'
import { EGRESS_CONTROL_TOKEN, EGRESS_CREDENTIALS_TOKEN } from '../../contracts/egress-proxy-env.ts'
import { IDENTITY_TOKEN } from '../../contracts/pod.ts'
import type { Volume, VolumeMount } from '../imports/k8s.js'

/** The audience that Entra accepts in a token exchange. */
export const EXCHANGE_AUDIENCE = 'api://AzureADTokenExchange'

/**
 * A pod's token for Entra (workload identity federation). Mounted here and not by Azure's webhook, which
 * would mount it into every container.
 */
export const EXCHANGE_TOKEN = {
  audience: EXCHANGE_AUDIENCE,
  mountPath: '/var/run/secrets/azure/tokens',
  file: 'azure-identity-token',
  /** Entra accepts at most one day. The kubelet renews the token after 80 % of its life. */
  lifetimeSeconds: 3600,
} as const

/** The token with which a pod proves its identity to the API. No other service accepts its audience. */
const IDENTITY = { ...IDENTITY_TOKEN, audience: IDENTITY_AUDIENCE } as const

export interface MountedToken {
  readonly volume: Volume
  readonly mount: VolumeMount
}

export const exchangeToken = () => mountedToken('azure-token', EXCHANGE_TOKEN)
export const identityToken = () => mountedToken('identity-token', IDENTITY)
export const controlToken = () => mountedToken('control-token', EGRESS_CONTROL_TOKEN)
export const credentialsToken = () => mountedToken('credentials-token', EGRESS_CREDENTIALS_TOKEN)

interface Token {
  readonly audience: string
  readonly mountPath: string
  readonly file: string
  readonly lifetimeSeconds: number
}

function mountedToken(name: string, { audience, mountPath, file, lifetimeSeconds }: Token): MountedToken {
  const serviceAccountToken = { audience, expirationSeconds: lifetimeSeconds, path: file }
  return {
    volume: { name, projected: { defaultMode: 0o440, sources: [{ serviceAccountToken }] } },
    mount: { name, mountPath, readOnly: true },
  }
}
