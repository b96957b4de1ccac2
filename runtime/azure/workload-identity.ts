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
