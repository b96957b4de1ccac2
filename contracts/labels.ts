/** Labels on pods. Policy is per class, so there are no per-run labels of ours. */
export const CLASS_LABEL = 'agentweaver.io/class'

/** Which of our programs a pod is, by Kubernetes' recommended label. Policies select and demand it. */
export const COMPONENT_LABEL = 'app.kubernetes.io/component'
export const COMPONENTS = {
  api: 'api',
  databaseSetup: 'database-setup',
  egressProxy: 'egress-proxy',
  sandbox: 'sandbox',
} as const

/** Labels on claims: a reaper touches only what carries its own deployment id. */
export const DEPLOYMENT_LABEL = 'agentweaver.io/deployment'
export const KIND_LABEL = 'agentweaver.io/kind'

/** Annotation of a claim: the random value that the store kept before the claim was posted. */
export const CLAIM_NONCE_ANNOTATION = 'agentweaver.io/nonce'

/** Selects the namespaces of a slice for admission bindings. */
export const SLICE_LABEL = 'agentweaver.io/slice'

export const KATA_NODE_LABEL = { key: 'agentweaver.io/kata', value: 'true' } as const
export const KATA_TAINT = { key: 'sandbox', value: 'kata', effect: 'NoSchedule' } as const
export const SYSTEM_TAINT = { key: 'CriticalAddonsOnly', value: 'true', effect: 'NoSchedule' } as const

/** RuntimeClasses; `handler` is containerd's name of the runtime. `runc` serves only `isolation: none`. */
export const RUNTIME_CLASSES = {
  kata: { name: 'agentweaver-kata', handler: 'kata' },
  gvisor: { name: 'gvisor', handler: 'runsc' },
} as const

/** Labels of a namespace of ours: Pod Security at its strictest, and the slice that admission bindings select by. */
export function namespaceLabels(prefix: string): Record<string, string> {
  return {
    [SLICE_LABEL]: prefix,
    'pod-security.kubernetes.io/audit': 'restricted',
    'pod-security.kubernetes.io/enforce': 'restricted',
    'pod-security.kubernetes.io/warn': 'restricted',
  }
}
