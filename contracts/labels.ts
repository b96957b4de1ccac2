/** Pod label that policies select by. Policies apply per class, so pods carry no per-run label. */
export const CLASS_LABEL = 'agentweaver.io/class'

/** Kubernetes' recommended label for the program in a pod. Policies select by it and require it. */
export const COMPONENT_LABEL = 'app.kubernetes.io/component'
export const COMPONENTS = {
  api: 'api',
  databaseSetup: 'database-setup',
  egressProxy: 'egress-proxy',
  sandbox: 'sandbox',
} as const

/** Claim label with the deployment id. A reaper deletes only claims with its own deployment id. */
export const DEPLOYMENT_LABEL = 'agentweaver.io/deployment'
export const KIND_LABEL = 'agentweaver.io/kind'

/** Claim annotation: the random value that the store saved before it created the claim. */
export const CLAIM_NONCE_ANNOTATION = 'agentweaver.io/nonce'

/** Namespace label by which admission bindings select the namespaces of a slice. */
export const SLICE_LABEL = 'agentweaver.io/slice'

export const KATA_NODE_LABEL = { key: 'agentweaver.io/kata', value: 'true' } as const
export const KATA_TAINT = { key: 'sandbox', value: 'kata', effect: 'NoSchedule' } as const
export const SYSTEM_TAINT = { key: 'CriticalAddonsOnly', value: 'true', effect: 'NoSchedule' } as const

/** RuntimeClasses; `handler` is the runtime's name in containerd. */
export const RUNTIME_CLASSES = {
  kata: { name: 'agentweaver-kata', handler: 'kata' },
  gvisor: { name: 'gvisor', handler: 'runsc' },
} as const

/** Namespace labels: Pod Security level `restricted`, and the slice for admission bindings. */
export function namespaceLabels(prefix: string): Record<string, string> {
  return {
    [SLICE_LABEL]: prefix,
    'pod-security.kubernetes.io/audit': 'restricted',
    'pod-security.kubernetes.io/enforce': 'restricted',
    'pod-security.kubernetes.io/warn': 'restricted',
  }
}
