import type { Isolation } from '../../../contracts/exec.ts'
import type { SandboxWarning } from '../provider.ts'

const BACKEND = 'kubernetes-sandbox-claim'

/** Describes the isolation that the environment requires of its pods. */
export function isolationOf(runtimeClass: string | undefined): Isolation {
  const reason = runtimeClass
    ? `a separate pod with the runtime class ${runtimeClass}`
    : 'a separate pod, in containers that share the kernel of their node'
  return { backend: BACKEND, isRealIsolation: true, enforcesEgress: true, reason }
}

/** Warnings that the run's events carry before the first command. */
export function warningsOf(runtimeClass: string | undefined): SandboxWarning[] {
  if (runtimeClass) return []
  const message = 'this environment has no hard isolation: sandboxes share the kernel of their node'
  return [{ category: 'weaker-limits', message, backend: BACKEND }]
}
