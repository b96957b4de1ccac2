import { secretGetter, secretWriter } from '../model/roles.ts'
import type { StateConfig } from './state-config.ts'
import { stateNames } from './state-names.ts'

const guidIn = ({ definitionId }: { readonly definitionId: string }): string =>
  definitionId.split('/').at(-1) ?? ''

/** The parameters of `state.bicep`, by name. */
export function stateParameters(config: StateConfig) {
  const { environment, subscriptionId, reachedFrom } = config
  const names = stateNames(config)
  const platform = `agentweaver-${environment}`
  const isOpen = reachedFrom === 'anywhere'
  return {
    environmentName: environment,
    location: config.location,
    tenantId: config.tenantId,
    repository: config.repository,
    previews: config.previews,
    promotedBy: config.promotedBy ?? '',
    operators: config.operators,
    reachedFromAnywhere: isOpen,
    reachedFrom: isOpen ? [] : reachedFrom,
    storageName: names.storage,
    vaultName: names.vault,
    // The program finds these two roles by their GUIDs.
    getterRoleGuid: guidIn(secretGetter(subscriptionId, platform)),
    writerRoleGuid: guidIn(secretWriter(subscriptionId, platform)),
  }
}

/** The content of a parameter file, in Azure's format. */
export const parameterFile = (config: StateConfig) => ({
  $schema: 'https://schema.management.azure.com/schemas/2019-04-01/deploymentParameters.json#',
  contentVersion: '1.0.0.0',
  parameters: Object.fromEntries(
    Object.entries(stateParameters(config)).map(([name, value]) => [name, { value }]),
  ),
})
