/** The Azure identity that the pod's projected token stands for. */
export type WorkloadIdentity = {
  readonly clientId: string
  readonly tenantId: string
  /** Origin of the token endpoint. */
  readonly authority: string
  readonly tokenFile: string
}
