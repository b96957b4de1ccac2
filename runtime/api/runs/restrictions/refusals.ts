import type { ToolName } from '../../../../contracts/tools.ts'
import { SandboxError } from '../../../kit/errors.ts'
import { type Effect, restrictionWords } from './restrictions.ts'

/** Tools that change files. Commands may still do so: a restriction limits their network. */
const WRITING_TOOLS: ReadonlySet<string> = new Set<ToolName>([
  'str_replace_editor',
  'apply_patch',
  'create',
  'edit',
])

const HOW_TO_LIFT = 'A person can lift it with `agentweaver restrict normal`'

/** Why a call of the agent is refused, or undefined. Calls of a frozen run are not refused: they wait. */
export const refusedTool = (effect: Effect, tool: string): string | undefined =>
  effect.isReadOnly && WRITING_TOOLS.has(tool)
    ? `${restrictionWords(effect, 'read-only')}. File tools can only read. ${HOW_TO_LIFT}.`
    : undefined

/** Refuses work that a person wants to start in a frozen sandbox. */
export function refuseFrozen(effect: Effect): void {
  if (effect.isFrozen)
    throw new SandboxError('restricted', `${restrictionWords(effect, 'frozen')}. ${HOW_TO_LIFT}.`)
}

/** Refuses a write through the file API. */
export function refuseWrites(effect: Effect): void {
  refuseFrozen(effect)
  if (effect.isReadOnly)
    throw new SandboxError('restricted', `${restrictionWords(effect, 'read-only')}. ${HOW_TO_LIFT}.`)
}

/** Refuses a push of the result of a run: its sandbox is another run, to which a restriction of this run does not apply. */
export function refusePush(effect: Effect): void {
  refuseWrites(effect)
  if (effect.network === 'no-network')
    throw new SandboxError('restricted', `${restrictionWords(effect, 'no-network')}. ${HOW_TO_LIFT}.`)
}
