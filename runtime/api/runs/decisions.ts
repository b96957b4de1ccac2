import type { Store } from '../../store/store.ts'
import type { ActiveRuns } from './active-runs.ts'
import { type Approvals, type PersonsWord, toApproval } from './approvals.ts'
import { requireRun } from './run-view.ts'
import type { Caller, RunService, ShellDecision, ToolDecision } from './service.ts'

type ForCallers = Pick<RunService, 'listApprovals' | 'decideShell' | 'decideTool' | 'answerQuestion'>
type DecisionParts = { readonly store: Store; readonly approvals: Approvals; readonly active: ActiveRuns }

/** What people say to a run that waits: durable first, then told to the sandbox. */
export function createDecisions({ store, approvals, active }: DecisionParts): ForCallers {
  async function say(runId: string, word: PersonsWord) {
    const { approval, decision } = await approvals.decide(runId, word)
    await active.get(runId)?.settleApproval(word.requestId, [decision])
    return approval
  }

  return {
    async listApprovals(caller, id) {
      await requireRun(store, caller, id)
      return { items: (await store.listApprovals(id)).map(toApproval) }
    },
    async decideShell(caller, id, decision) {
      await requireRun(store, caller, id)
      const requestId = decision.requestId ?? (await approvals.findByHash(id, decision.commandHash ?? ''))
      return say(id, wordOf(caller, requestId, decision))
    },
    async decideTool(caller, id, decision) {
      await requireRun(store, caller, id)
      return say(id, wordOf(caller, decision.requestId, decision))
    },
    async answerQuestion(caller, id, { requestId, answer }) {
      await requireRun(store, caller, id)
      await say(id, { requestId, outcome: 'answered', by: caller.owner, answer })
    },
  }
}

const wordOf = (
  { owner: by }: Caller,
  requestId: string,
  decision: ShellDecision | ToolDecision,
): PersonsWord =>
  decision.outcome === 'approved'
    ? { requestId, outcome: 'approved', by, scope: decision.scope }
    : { requestId, outcome: 'denied', by, reason: decision.reason }
