import type { EgressGeneration } from '../../../contracts/egress.ts'
import type { SandboxKind } from '../../../contracts/names.ts'
import { pushRuleOf } from '../../../policies/agent/tighten.ts'
import { present } from '../../kit/present.ts'
import type { PushedBranch } from '../../store/pushes.ts'
import type { RunRow } from '../../store/store.ts'

/** The rules for pushes of a sandbox, for the proxy. Only a sandbox with a credential can push. */
export function pushOf(
  { settings, push }: Pick<RunRow, 'settings' | 'push'>,
  pushed: readonly PushedBranch[],
  hasCredential: boolean,
): Pick<EgressGeneration, 'push'> {
  if (!hasCredential) return {}
  const grant = push && { ref: push.ref, commit: push.commit }
  return { push: { rule: pushRuleOf(settings), pushed: [...pushed], ...present({ grant }) } }
}

/** The class whose destinations a sandbox gets. A sandbox that pushes for a person has the class of the run with the result. */
export const classOf = ({ push }: Pick<RunRow, 'push'>, kind: SandboxKind): SandboxKind => push?.kind ?? kind
