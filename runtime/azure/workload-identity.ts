import type { AzureIdentityEnv } from '../../contracts/azure-identity-env.ts'

/** A proxy, in the form that the Azure SDKs take. */
export interface ProxyAddress {
  /** With `http://`. */
  readonly host: string
  readonly port: number
  readonly username?: string
  readonly password?: string
}

/** The Azure identity that the pod's projected token stands for. */
export type WorkloadIdentity = {
  readonly clientId: string
  readonly tenantId: string
  /** Origin of the token endpoint. */
  readonly authority: string
  readonly tokenFile: string
  /** The way to all servers of Azure. @default the variables of the environment */
  readonly proxy?: ProxyAddress
}

/** Undefined if a variable is missing. */
export function workloadIdentityOf({
  AZURE_AUTHORITY_HOST: authority,
  AZURE_CLIENT_ID: clientId,
  AZURE_FEDERATED_TOKEN_FILE: tokenFile,
  AZURE_TENANT_ID: tenantId,
}: AzureIdentityEnv): WorkloadIdentity | undefined {
  if (!authority || !clientId || !tokenFile || !tenantId) return undefined
  return { authority: new URL(authority).origin, clientId, tokenFile, tenantId }
}
