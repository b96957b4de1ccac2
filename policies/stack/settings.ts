/** Stacks that are neither development nor preview stacks by their name are checked with production's rules. */
export type StackEnvironment = 'production' | 'development' | 'preview'

/** Settings that an organisation can change with `pulumi preview --policy-pack-config`, by rule name. */
export interface PolicySettings {
  /** Azure's names of regions. */
  readonly regions: readonly string[]
  /** The most nodes that a Kata pool may grow to. */
  readonly kataMaxNodes: number
}

/** Regions with three availability zones and all AKS features that the program uses. */
const REGIONS = [
  'australiaeast brazilsouth canadacentral centralindia centralus eastus eastus2 francecentral germanywestcentral',
  'italynorth japaneast koreacentral northeurope norwayeast polandcentral southafricanorth southcentralus',
  'southeastasia spaincentral swedencentral switzerlandnorth uaenorth uksouth westeurope westus2 westus3',
].flatMap((line) => line.split(' '))

export const DEFAULT_SETTINGS: PolicySettings = { regions: REGIONS, kataMaxNodes: 100 }

/**
 * Derives the environment from the stack's name: `dev` and `dev-…` are development, `pr-…` are previews, all others are
 * production.
 */
export function environmentOf(stack: string): StackEnvironment {
  if (/^pr-./.test(stack)) return 'preview'
  return /^dev(?:-|$)/.test(stack) ? 'development' : 'production'
}
