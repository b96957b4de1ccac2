/** The ConfigMap in each namespace of a slice with the limits of this slice. Only the GitOps identity writes it. */
export const PARAMETER_OBJECT = {
  apiVersion: 'v1',
  kind: 'ConfigMap',
  name: 'agentweaver-admission',
} as const

/**
 * Keys of the parameter object. Every key is always present: a rule that reads a missing key fails, and a failing rule
 * rejects the request. Lists are joined by commas; an empty string is an empty list.
 */
export interface AdmissionParameters {
  /** Pools that a claim may name. */
  readonly pools: string
  /** User name of the one account that creates claims. */
  readonly apiIdentity: string
  /** Longest life of a claim, as CEL spells a duration: `24h`. */
  readonly maxLife: string
  /** Service accounts of pods of class `agent` and of class `command`. */
  readonly agentAccount: string
  readonly commandAccount: string
  /** Audiences of projected tokens of each class. */
  readonly agentAudiences: string
  readonly commandAudiences: string
  /** Empty if the environment has no sandbox isolation. */
  readonly runtimeClass: string
  /** `key=value` that the required node affinity must contain. Empty if every node is allowed. */
  readonly nodeLabel: string
  /** Taints that a pod may tolerate, by key. */
  readonly tolerations: string
  readonly priorityClass: string
  readonly dnsPolicy: string
  /** Images without their digest. */
  readonly agentHostRepository: string
  readonly toolboxRepository: string
  /** ConfigMap with the executor's public keys. */
  readonly executorKeys: string
}
