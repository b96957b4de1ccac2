const FIRST = { Namespace: 0, PriorityClass: 0, RuntimeClass: 0, StorageClass: 0 } as const
const SERVED = {
  SandboxTemplate: 1,
  SandboxWarmPool: 2,
  Deployment: 1,
  PrometheusRule: 2,
  PodMonitor: 2,
} as const

const BASE = {
  foundation: 1,
  network: 2,
  admission: 2,
  sandboxes: 3,
  api: 6,
  egress: 6,
  preview: 6,
} as const
/** The applications of an environment. */
export type AppName = keyof typeof BASE

/**
 * The sync wave of an object: namespaces, quotas, policies, accounts and configuration, templates, pools,
 * then Services. A pool must never start a pod before the policies that select it exist.
 */
export function waveOf(app: AppName, kind: string): number {
  if (app === 'foundation' && kind in FIRST) return 0
  return BASE[app] + (SERVED[kind as keyof typeof SERVED] ?? 0)
}
