/**
 * What the program asks the engine for, as data: the one shape that the plan's page, its golden file, the policy
 * rules, the shape checks and the replace guard read.
 */

/** A value that only Azure or the cluster knows after creation; `from` is the URN and path that it comes from. */
export interface Unknown {
  readonly $unknown: string
}

/** A value that is marked secret. What it is does not enter a plan. */
export interface Secret {
  readonly $secret: true
}

/** JSON with the two markers above. */
export type PlannedValue =
  | null
  | boolean
  | number
  | string
  | Unknown
  | Secret
  | readonly PlannedValue[]
  | { readonly [key: string]: PlannedValue }

export interface PlannedResource {
  readonly urn: string
  /** Pulumi's type token: `azure-native:containerservice:ManagedCluster`, `agentweaver:infra:Cluster`. */
  readonly type: string
  /** The logical name, unique among resources of one type and parent. */
  readonly name: string
  /** False for components: they only group. */
  readonly custom: boolean
  /** URN of the component or resource that it belongs to; absent directly under the stack. */
  readonly parent?: string
  readonly inputs: { readonly [key: string]: PlannedValue }
  /** URNs that must exist before, sorted. */
  readonly dependencies: readonly string[]
  readonly protect: boolean
  readonly ignoreChanges: readonly string[]
  readonly retainOnDelete: boolean
  /** URN of the resource with which it goes, without a deletion of its own. */
  readonly deletedWith?: string
}

/** All that one run of the program registered, in an order in which it could be created. */
export interface Plan {
  readonly project: string
  readonly stack: string
  readonly resources: readonly PlannedResource[]
  readonly outputs: { readonly [key: string]: PlannedValue }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export const isUnknown = (value: unknown): value is Unknown => isObject(value) && '$unknown' in value
export const isSecret = (value: unknown): value is Secret => isObject(value) && value.$secret === true
