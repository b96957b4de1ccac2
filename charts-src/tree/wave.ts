import type { AppName } from './render.ts'

const FIRST = { Namespace: 0, PriorityClass: 0, RuntimeClass: 0, StorageClass: 0 } as const
const SERVED = {
  SandboxTemplate: 1,
  SandboxWarmPool: 2,
  Deployment: 1,
  PrometheusRule: 2,
  PodMonitor: 2,
} as const

const BASE: Readonly<Record<AppName, number>> = {
  foundation: 1,
  network: 2,
  admission: 2,
  sandboxes: 3,
  api: 6,
  preview: 6,
}

/**
 * When an object is applied: namespaces, then quotas, then policies, then accounts and configuration, templates, pools,
 * and services last. A pool must never be able to start a pod that no policy selects.
 */
export function waveOf(app: AppName, kind: string): number {
  if (app === 'foundation' && kind in FIRST) return 0
  return BASE[app] + (SERVED[kind as keyof typeof SERVED] ?? 0)
}
