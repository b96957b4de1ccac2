/**
 * Resources that the Pulumi program requests, as data. The plan page, its golden file, the policy rules, the shape
 * checks and the replace guard all read this shape.
 */

/** A value that is known only after creation. `$unknown` holds the URN and the property path of its source. */
export interface Unknown {
  readonly $unknown: string
}

/** A value marked secret. Plans never contain the value itself. */
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
  /** False for components, which only group resources. */
  readonly custom: boolean
  /** URN of the parent; absent directly under the stack. */
  readonly parent?: string
  readonly inputs: { readonly [key: string]: PlannedValue }
  /** URNs that must exist first, sorted. */
  readonly dependencies: readonly string[]
  readonly protect: boolean
  readonly ignoreChanges: readonly string[]
  readonly retainOnDelete: boolean
  /** URN of the resource whose deletion also removes this one. */
  readonly deletedWith?: string
}

/** Everything that one run of the program registered, in an order that respects dependencies. */
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
