import type { Isolation } from '../../../contracts/exec.ts'
import type { SandboxWarning } from '../provider.ts'

const BACKEND = 'kubernetes-sandbox-claim'

/** How commands of a sandbox are isolated, as the environment requires it of its pods. */
export function isolationOf(runtimeClass: string | undefined): Isolation {
  const reason = runtimeClass
    ? `a pod of its own under the runtime class ${runtimeClass}`
    : 'a pod of its own, in containers that share the kernel of their node'
  return { backend: BACKEND, isRealIsolation: true, enforcesEgress: true, reason }
}

/** What the environment gives up is said before the first command. */
export function warningsOf(runtimeClass: string | undefined): SandboxWarning[] {
  if (runtimeClass) return []
  const message = 'this environment asks for no hard isolation: sandboxes share the kernel of their node'
  return [{ category: 'weaker-limits', message, backend: BACKEND }]
}
