/** The object in each namespace of sandboxes that says what this slice permits. Only the GitOps identity writes it. */
export const PARAMETER_OBJECT = {
  apiVersion: 'v1',
  kind: 'ConfigMap',
  name: 'agentweaver-admission',
} as const

/**
 * Its keys. Every key is always there: a rule that reads a missing one fails, and a failing rule refuses.
 * Lists are joined by commas; an empty text means that there is none.
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
  /** Empty where the environment isolates nothing. */
  readonly runtimeClass: string
  /** `key=value` that required node affinity must ask for; empty where any node will do. */
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
