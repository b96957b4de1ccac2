/** The Azure workload identity of a pod, under the names that the Azure SDKs use. All are set, or none. */
export const AZURE_KEYS = [
  'AZURE_AUTHORITY_HOST',
  'AZURE_CLIENT_ID',
  'AZURE_FEDERATED_TOKEN_FILE',
  'AZURE_TENANT_ID',
] as const
