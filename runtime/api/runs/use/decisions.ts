import type { CallDecision } from '../../../../contracts/decisions.ts'
import { delay } from '../../../kit/deadline.ts'
import type { Log } from '../../../kit/log.ts'
import type { Store } from '../../../store/store.ts'
import type { ActiveRuns } from '../drive/active-runs.ts'
import { type Approvals, type PersonsWord, toApproval } from '../gates/approvals.ts'
import type { Dispatcher } from '../queue/dispatcher.ts'
import { requireRun, requireRunToDecide, requireRunToFollow } from '../run-view.ts'
import type { Caller, RunService, ShellDecision, ToolDecision } from '../service.ts'

/** A person's request is answered after this time, delivered or not. */
const ANSWER_MS = 2_000
const DELIVERY_PAUSES_MS = [0, 200, 1_000, 5_000, 15_000, 30_000]

type ForCallers = Pick<RunService, 'listApprovals' | 'decideShell' | 'decideTool' | 'answerQuestion'>
type DecisionParts = {
  readonly store: Store
  readonly approvals: Approvals
  readonly active: ActiveRuns
  readonly queue: Pick<Dispatcher, 'wake'>
  readonly log: Log
}

/** Decisions of people about a run that waits. They are stored first and then sent to the sandbox. */
export function createDecisions({ store, approvals, active, queue, log }: DecisionParts): ForCallers {
  /** Sends a decision to the sandbox, repeatedly if necessary. The sandbox applies it once. */
  async function deliver(runId: string, requestId: string, decision: CallDecision): Promise<void> {
    for (const pauseMs of DELIVERY_PAUSES_MS) {
      await delay(pauseMs)
      const driven = active.get(runId)
      if (!driven) return
      try {
        return await driven.settleApproval(requestId, [decision])
      } catch (error) {
        log.warn('a decision was not delivered yet', { runId, requestId, error })
      }
    }
  }

  async function say(caller: Caller, runId: string, word: PersonsWord) {
    const { approval, decision } = await approvals.decide(caller, runId, word)
    // A suspended run is queued now.
    queue.wake()
    // The decision is stored, so the person gets a response even if it is not delivered yet.
    await Promise.race([deliver(runId, word.requestId, decision), delay(ANSWER_MS)])
    return approval
  }

  return {
    async listApprovals(caller, id) {
      await requireRunToFollow(store, caller, id)
      return { items: (await store.listApprovals(id)).map(toApproval) }
    },
    async decideShell(caller, id, decision) {
      await requireRunToDecide(store, caller, id)
      const requestId = decision.requestId ?? (await approvals.findByHash(id, decision.commandHash ?? ''))
      return say(caller, id, wordOf(caller, requestId, decision))
    },
    async decideTool(caller, id, decision) {
      await requireRunToDecide(store, caller, id)
      return say(caller, id, wordOf(caller, decision.requestId, decision))
    },
    async answerQuestion(caller, id, { requestId, answer }) {
      await requireRun(store, caller, id)
      await say(caller, id, { requestId, outcome: 'answered', by: caller.owner, answer })
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
