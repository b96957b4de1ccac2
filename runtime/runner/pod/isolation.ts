import type { Isolation } from '../../../contracts/exec.ts'
import type { RunnerWarning } from '../../../contracts/runner.ts'
import type { OfflineForm } from '../../../contracts/runner-env.ts'
import { commandShell } from '../../executors/command-shell.ts'

const WAYS: Readonly<Record<OfflineForm, string>> = {
  namespace: 'a private network namespace',
  filter: 'a system call filter',
}

/** The isolation that a pod's runner reports. The pod's network policy restricts commands that use the network. */
export function podIsolation(reason: string): Isolation {
  const shell = commandShell().name
  return { backend: 'kubernetes-sandbox-claim', isRealIsolation: true, enforcesEgress: true, shell, reason }
}

export function offlineReason(form: OfflineForm, whyFilter?: string): string {
  const why = whyFilter === undefined ? '' : ` (no namespace: ${whyFilter})`
  return `a sandbox pod; commands without network are restricted by ${WAYS[form]}${why}`
}

export const NO_LOOPBACK: RunnerWarning = {
  category: 'no-loopback',
  message:
    'a command without network has no loopback interface either: tests that connect to a server on 127.0.0.1 fail',
}
