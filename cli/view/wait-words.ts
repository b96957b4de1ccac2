import type { Approval, Run } from '../../contracts/api.ts'
import { age } from '../terminal/duration.ts'

const QUESTION_TOOL = 'ask_question'

const WORDS = {
  approval: 'an approval',
  question: 'an answer',
  turn: 'the next turn',
  resume: 'a person who continues it',
} as const

/** The reason and the begin of a run's wait. Undefined if it does not wait. */
export function waitOf(run: Run): { readonly what: string; readonly since: string } | undefined {
  const { state, waiting, createdAt } = run
  if (state === 'waiting_upload') return { what: 'the upload of its workspace', since: createdAt }
  return waiting && { what: WORDS[waiting.for], since: waiting.since }
}

/** The commands that continue a run that waits. `suffix` selects the service. */
export function continueWith(run: Run, approvals: readonly Approval[], suffix: string): string[] {
  const { id, waiting } = run
  const decisions = approvals
    .filter(({ state }) => state === 'pending')
    .flatMap((approval) => decisionCommands(approval, suffix))
  if (waiting?.for === 'turn') return [...decisions, `agentweaver turn ${id} TEXT${suffix}`]
  if (waiting?.for === 'resume') return [...decisions, `agentweaver resume ${id}${suffix}`]
  return decisions
}

export function decisionCommands({ runId, requestId, tool }: Approval, suffix: string): string[] {
  if (tool === QUESTION_TOOL) return [`agentweaver answer ${runId} ${requestId} TEXT${suffix}`]
  return [
    `agentweaver approve ${runId} ${requestId}${suffix}`,
    `agentweaver deny ${runId} ${requestId}${suffix}`,
  ]
}

export const isQuestion = ({ tool }: Approval): boolean => tool === QUESTION_TOOL

/** Whether the commands depend on the requests of the run. */
export const waitsForDecision = ({ waiting }: Run): boolean =>
  waiting?.for === 'approval' || waiting?.for === 'question'

/** One line for a list: the wait, and the first command that ends it. */
export function waitLine(run: Run, commands: readonly string[], now: number): string {
  const { id } = run
  const wait = waitOf(run)
  if (!wait) return ''
  const [first] = commands
  const next = first === undefined ? '' : `: ${first}`
  return `${id} waits for ${wait.what}, for ${age(wait.since, now)}${next}`
}
