import type { Isolation } from '../../../contracts/exec.ts'
import type { RunnerWarning } from '../../../contracts/runner.ts'
import type { OfflineForm } from '../../../contracts/runner-env.ts'
import { commandShell } from '../../executors/command-shell.ts'

const WAYS: Readonly<Record<OfflineForm, string>> = {
  namespace: 'a network namespace of its own',
  filter: 'a system call filter',
}

/** The isolation that a pod's runner reports. The pod's network policy restricts commands that use the network. */
export function podIsolation(reason: string): Isolation {
  const shell = commandShell().name
  return { backend: 'kubernetes-sandbox-claim', isRealIsolation: true, enforcesEgress: true, shell, reason }
}

export function offlineReason(form: OfflineForm, whyFilter?: string): string {
  const why = whyFilter === undefined ? '' : ` (no namespace: ${whyFilter})`
  return `a sandbox pod; a command without network is held by ${WAYS[form]}${why}`
}

export const NO_LOOPBACK: RunnerWarning = {
  category: 'no-loopback',
  message:
    'a command without network has no loopback either: a test that starts a server and asks it on 127.0.0.1 fails here',
}
