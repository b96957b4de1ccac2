import * as z from 'zod'
import type { Plan, PlanStep } from '../../../contracts/agents.ts'
import { delay } from '../../kit/deadline.ts'
import type { AgentDeps, AgentSession, Turn, TurnResult } from '../agent.ts'
import { createCallIds } from '../call-ids.ts'
import { decodeMeta, encodeMeta } from '../session-meta.ts'

const Meta = z.strictObject({ kind: z.literal('scripted'), turn: z.int().nonnegative() })

/** Number of characters in one delta. Small, so that streaming is visible. */
const DELTA = /[\s\S]{1,24}/gu

/**
 * An agent that follows a plan: each turn executes the next list of steps. A refused call does not end the turn, because
 * a plan may contain calls that must be refused.
 */
export function createScriptedAgent(plan: Plan, deps: AgentDeps): AgentSession {
  const position = deps.sessionFiles ? decodeMeta(Meta, deps.sessionFiles) : { kind: 'scripted', turn: 0 }
  let next = position.turn
  return {
    runTurn: async (turn) => {
      const steps = plan.turns[next] ?? [{ kind: 'say', text: 'The plan has ended.' }]
      next += 1
      return runSteps(steps, turn, deps)
    },
    exportSession: async () => new Map([encodeMeta({ kind: 'scripted', turn: next })]),
    close: async () => undefined,
  }
}

async function runSteps(steps: readonly PlanStep[], turn: Turn, deps: AgentDeps): Promise<TurnResult> {
  const callId = createCallIds(turn.turnId)
  try {
    for (const [index, step] of steps.entries()) {
      turn.signal.throwIfAborted()
      if (step.kind === 'say') say({ turn, messageId: `${turn.turnId}-m${index + 1}`, text: step.text })
      else if (step.kind === 'wait') await delay(step.ms, turn.signal)
      else {
        const call = { callId: callId(), tool: step.tool, arguments: step.arguments }
        await abandonable(deps.callTool(call, turn.signal), turn.signal)
      }
    }
    return { state: 'completed' }
  } catch (error) {
    if (turn.signal.aborted) return { state: 'cancelled' }
    throw error
  }
}

function say({ turn, messageId, text }: { turn: Turn; messageId: string; text: string }): void {
  for (const [piece] of text.matchAll(DELTA)) {
    turn.emit({ type: 'agent.message.delta', data: { messageId, text: piece } })
  }
  turn.emit({ type: 'agent.message', data: { messageId, text } })
}

/** Rejects when the signal aborts, so that a turn does not outlive its cancellation. */
async function abandonable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const abandon = () => reject(signal.reason)
  signal.addEventListener('abort', abandon, { once: true })
  try {
    return await Promise.race([work, promise])
  } finally {
    signal.removeEventListener('abort', abandon)
  }
}
