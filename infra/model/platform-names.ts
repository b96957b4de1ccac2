import { globalName } from './naming.ts'

/** The parts of all names. */
export interface Named {
  readonly environment: string
  readonly subscriptionId: string
  readonly names: {
    readonly registry?: string | undefined
    readonly controlPlaneVault?: string | undefined
    readonly userTokenVault?: string | undefined
    readonly database?: string | undefined
  }
}

const PRODUCT = 'agentweaver'

/** Every name of a platform. Those that the whole of Azure shares carry a hash, unless the stack gives its own. */
export function platformNames({ environment, subscriptionId, names }: Named) {
  const base = `${PRODUCT}-${environment}`
  const shared = (max: number, what: string, separator = '-') =>
    globalName({
      max,
      parts: [PRODUCT, environment, what].filter((part) => part !== ''),
      salt: subscriptionId,
      separator,
    })
  return {
    base,
    resourceGroup: base,
    /** Set explicitly, because the generated name can exceed Azure's limit. */
    nodeResourceGroup: `${base}-nodes`,
    cluster: base,
    registry: names.registry ?? shared(50, '', ''),
    controlPlaneVault: names.controlPlaneVault ?? shared(24, 'cp'),
    userTokenVault: names.userTokenVault ?? shared(24, 'users'),
    database: names.database ?? shared(63, 'db'),
    identity: (purpose: string) => `${base}-${purpose}`,
  } as const
}
export type PlatformNames = ReturnType<typeof platformNames>

/**
 * Names of a slice. They share a prefix, by which leftovers are found. Slices share a resource group that an owner
 * creates (`infra/state`): the identity that creates slices may write identities only there.
 */
export function sliceNames(environment: string, slug: string) {
  const base = `${PRODUCT}-${environment}-pr-${slug}`
  return {
    base,
    resourceGroup: `${PRODUCT}-${environment}-previews`,
    identity: (purpose: string) => `${base}-${purpose}`,
  } as const
}

/** Secrets of a deployment in the control-plane vault. The API of a slice may read only the secrets of its slice. */
export function deploymentSecrets(prefix: string): readonly string[] {
  return [`${prefix}-deployment-key`, `${prefix}-ticket-key`]
}

export const resourceGroupId = (subscriptionId: string, name: string) =>
  `/subscriptions/${subscriptionId}/resourceGroups/${name}`
