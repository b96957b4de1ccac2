import type { ExecRequest, Isolation } from '../../contracts/exec.ts'
import type { SandboxSettings } from '../../contracts/policy.ts'

/**
 * Returns why a command sent by a user must not run in a sandbox, or undefined. Applies the same checks as for
 * the agent's commands: the shell is enabled, isolation is real unless the operator set `direct`, and the
 * network is allowed.
 */
export function refuseCommand(
  request: Pick<ExecRequest, 'network'>,
  settings: SandboxSettings,
  isolation: Pick<Isolation, 'isRealIsolation' | 'backend'>,
): string | undefined {
  if (!settings.shell_enabled) return 'commands are off for this run (shell_enabled: false)'
  if (!isolation.isRealIsolation && !settings.direct) {
    return `nothing isolates commands here (${isolation.backend}), and the operator did not allow that`
  }
  if (request.network && !settings.network_enabled)
    return 'the network is off for this run (network_enabled: false)'
  return undefined
}
