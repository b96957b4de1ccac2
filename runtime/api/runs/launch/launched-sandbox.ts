import type { Isolation } from '../../../../contracts/exec.ts'
import type { AgentHostClient } from '../../../agent-host-client/client.ts'
import type { BoundSandbox } from '../../../sandboxes/provider.ts'
import type { ClaimRow, TurnRow } from '../../../store/store.ts'

/** A sandbox that is configured for its run, and the client that holds its bearer. */
export type LaunchedSandbox = {
  readonly sandbox: BoundSandbox
  readonly client: AgentHostClient
  readonly generation: number
  readonly claim: Pick<ClaimRow, 'namespace' | 'name' | 'generation'>
  /** How the sandbox isolates commands, if this is to be reported when the run begins. */
  readonly selected?: Isolation
  /** The turn that a new sandbox begins with. */
  readonly turn?: TurnRow
  /** The text for the model before the next turn, if there is no turn to begin with. */
  readonly preface?: string
  /** The sandbox continues a turn whose session was saved before the turn had ended. */
  readonly resumes?: boolean
}
