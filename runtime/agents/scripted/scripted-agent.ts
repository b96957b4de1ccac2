import * as z from 'zod'
import type { Plan, PlanStep } from '../../../contracts/agents.ts'
import type { ToolOutcome } from '../../../contracts/tools.ts'
import { delay } from '../../kit/deadline.ts'
import { SandboxError } from '../../kit/errors.ts'
import { present } from '../../kit/present.ts'
import type { AgentDeps, AgentSession, Turn, TurnResult } from '../agent.ts'
import { createCallIds } from '../call-ids.ts'
import { decodeMeta, encodeMeta } from '../session-meta.ts'

const Suspended = z.strictObject({
  turnId: z.string(),
  /** Index of the step whose call was open. */
  step: z.int().nonnegative(),
  callId: z.string(),
})
type Suspended = z.infer<typeof Suspended>

const Meta = z.strictObject({
  kind: z.literal('scripted'),
  /** Index of the next list of steps, or of the suspended one. */
  turn: z.int().nonnegative(),
  suspended: Suspended.optional(),
})

/** Number of characters in one delta. Small, so that streaming is visible. */
const DELTA = /[\s\S]{1,24}/gu

/**
 * Creates an agent that follows a plan: each turn executes the next list of steps. A refused call ends the turn only if the
 * step is required, because a plan may contain calls that must be refused. When a suspended turn is sent again, the agent repeats
 * the interrupted step and continues from there, like a model that has read the events.
 */
export function createScriptedAgent(plan: Plan, deps: AgentDeps): AgentSession {
  const restored = deps.sessionFiles && decodeMeta(Meta, deps.sessionFiles)
  let next = restored?.turn ?? 0
  let suspended = restored?.suspended
  let running: { open?: Suspended | undefined } | undefined
  return {
    get suspendedTurn() {
      return suspended?.turnId
    },
    runTurn: async (turn) => {
      const start = suspended?.turnId === turn.turnId ? suspended : undefined
      // Another turn does not continue the suspended one: the list of steps that it was in is over.
      if (suspended && !start) next += 1
      suspended = undefined
      const steps = plan.turns[next] ?? [{ kind: 'say', text: 'The plan has ended.' }]
      const state: { open?: Suspended | undefined } = {}
      running = state
      const newId = createCallIds(turn.turnId, deps.generation)
      const call = async (index: number, { tool, arguments: args }: ToolStep) => {
        const callId = turn.resumes && start?.step === index ? start.callId : newId()
        state.open = { turnId: turn.turnId, step: index, callId }
        const calling = deps.callTool({ callId, tool, arguments: args }, turn.signal)
        const outcome = await abandonable(calling, turn.signal)
        state.open = undefined
        return outcome
      }
      try {
        return await runSteps(steps, turn, { first: start?.step ?? 0, call })
      } finally {
        running = undefined
        next += 1
      }
    },
    exportSession: async () => {
      if (running && !running.open) throw new SandboxError('conflict', 'no call of the running turn is open')
      const open = running ? running.open : suspended
      return new Map([encodeMeta({ kind: 'scripted', turn: next, ...present({ suspended: open }) })])
    },
    close: async () => undefined,
  }
}

type ToolStep = Extract<PlanStep, { kind: 'tool' }>

type Steps = {
  /** Index of the first step to execute. */
  readonly first: number
  readonly call: (index: number, step: ToolStep) => Promise<ToolOutcome>
}

async function runSteps(steps: readonly PlanStep[], turn: Turn, { first, call }: Steps): Promise<TurnResult> {
  try {
    for (const [index, step] of [...steps.entries()].slice(first)) {
      turn.signal.throwIfAborted()
      const failure = await runStep(step, { turn, index, call })
      if (failure) return failure
    }
    return { state: 'completed' }
  } catch (error) {
    if (turn.signal.aborted) return { state: 'cancelled' }
    throw error
  }
}

type Doing = Pick<Steps, 'call'> & { readonly turn: Turn; readonly index: number }

/** Undefined if the plan continues. */
async function runStep(step: PlanStep, { turn, index, call }: Doing): Promise<TurnResult | undefined> {
  if (step.kind === 'wait') await delay(step.ms, turn.signal)
  if (step.kind === 'say') say({ turn, messageId: `${turn.turnId}-m${index + 1}`, text: step.text })
  if (step.kind !== 'tool') return undefined
  const outcome = await call(index, step)
  return step.required && !hasSucceeded(outcome) ? failedStep(step, outcome) : undefined
}

/** Only commands have an exit code. It is null for a command that was killed. */
const hasSucceeded = (outcome: ToolOutcome): boolean =>
  outcome.ok && (outcome.facts['exitCode'] === undefined || outcome.facts['exitCode'] === 0)

/** The end of the output, which usually has the reason. The message becomes part of an event. */
const MAX_SHOWN = 2_000

function failedStep({ tool }: ToolStep, outcome: ToolOutcome): TurnResult {
  const said = outcome.ok ? outcome.content : outcome.message
  const message = `A required step of the plan failed. ${tool}: ${said.slice(-MAX_SHOWN)}`
  return { state: 'failed', code: 'agent_failed', message }
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
