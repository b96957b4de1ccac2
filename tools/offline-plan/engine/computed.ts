import { UNKNOWN } from './values.ts'

/**
 * Outputs that only Azure knows and that lie inside a property which the program also writes. The program reads a
 * property that it does not write as unknown; these would be read back as missing.
 */
const NESTED: Readonly<Record<string, readonly (readonly string[])[]>> = {
  'azure-native:containerservice:ManagedCluster': [
    ['oidcIssuerProfile', 'issuerURL'],
    ['networkProfile', 'loadBalancerProfile'],
  ],
  'azure-native:dashboard:Grafana': [['identity', 'principalId']],
  'azure-native:keyvault:Vault': [['properties', 'vaultUri']],
}

/** Inputs as a program reads them back before any resource exists. */
export function withUnknowns(
  type: string,
  inputs: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const state = structuredClone(inputs) as Record<string, unknown>
  for (const path of NESTED[type] ?? []) setUnknown(state, path)
  return state
}

function setUnknown(state: Record<string, unknown>, path: readonly string[]): void {
  const [key = '', ...rest] = path
  if (rest.length === 0) {
    state[key] = UNKNOWN
    return
  }
  const inner = state[key]
  if (typeof inner === 'object' && inner !== null) setUnknown(inner as Record<string, unknown>, rest)
}
