/** One admission rule. Each rejection begins with `name`, so that the reader can look the rule up. */
export interface AdmissionRule {
  readonly name: string
  /** CEL: `true` admits the object. An error rejects it. */
  readonly expression: string
  /** Names the field and what to do about it. */
  readonly message: string
  /**
   * CEL list of strings: the fields or containers that violate the rule. The rejection lists them before the message.
   */
  readonly offenders?: string
  /** What could happen without the rule. */
  readonly risk: string
}

/**
 * Where a policy applies: in the namespaces that hold sandboxes, in all namespaces of a slice, or in the whole cluster
 * (for objects that no namespace holds, and for namespaces themselves).
 */
export type Scope = 'sandboxes' | 'slice' | 'cluster'

export type Operation = 'CREATE' | 'UPDATE' | 'DELETE' | 'CONNECT'

export interface Matched {
  readonly apiGroup: string
  readonly apiVersion: string
  /** Plural names; `pods/exec` is a subresource. */
  readonly resources: readonly string[]
  readonly operations: readonly Operation[]
}

export interface AdmissionPolicy {
  readonly name: string
  readonly scope: Scope
  readonly matches: readonly Matched[]
  /** CEL that several rules share, as `variables.<name>`, in order. */
  readonly variables: Readonly<Record<string, string>>
  readonly rules: readonly AdmissionRule[]
}
