import type { SessionEvent } from '@github/copilot-sdk'
import type { TurnResult } from '../agent.ts'
import type { CopilotConfig } from './model-config.ts'

type Failed = Extract<TurnResult, { state: 'failed' }>
type SessionErrorData = Extract<SessionEvent, { type: 'session.error' }>['data']

const QUOTA = { types: ['quota', 'rate_limit'], statuses: [402, 429] }
const CREDENTIAL = { types: ['authentication', 'authorization'], statuses: [401, 403] }

/** Maximum length of a server's error text, because it becomes part of an event. */
const MAX_SERVER_WORDS = 2_000

export const failed = (code: Failed['code'], message: string): Failed => ({ state: 'failed', code, message })

/** Describes why a model request failed, and what to do. */
export function toFailure(error: SessionErrorData, { name, server, credential }: CopilotConfig): Failed {
  const said = error.message.slice(0, MAX_SERVER_WORDS)
  const status = error.statusCode === undefined ? '' : ` (HTTP ${error.statusCode})`
  if (isOf(QUOTA, error)) {
    return failed('agent_quota_exceeded', `${server} reports that the quota is used up${status}: ${said}`)
  }
  if (isOf(CREDENTIAL, error)) {
    return failed('agent_failed', `${server} refused the credential${status}: check ${credential}`)
  }
  if (error.statusCode === 404) {
    return failed('agent_failed', `${server} has no model "${name}" at this address${status}`)
  }
  return failed('agent_failed', `${server} sent no usable response${status}: ${said}`)
}

/** The failure for a turn in which the model refused. */
export const refused = (text: string): Failed =>
  failed(
    'agent_failed',
    `The model refused: ${text.slice(0, MAX_SERVER_WORDS)} Change the task, or use another model.`,
  )

/** The runtime asks for the rest of a cut-off answer twice before it ends the turn. */
export const CUT_OFF: Failed = failed(
  'ended_without_outcome',
  "The model's last answer was cut off at its maximum length, before it reported an outcome. Give it a smaller task, or use a model with a larger output limit.",
)

export const FILTERED: Failed = failed(
  'ended_without_outcome',
  "The content filter of the model's server stopped its last answer, before it reported an outcome. Change the task, or use another model.",
)

/** The failure for a turn in which several responses in a row had only calls that cannot be carried out. */
export const onlyUnusable = (answers: number, last: { readonly tool: string }): Failed =>
  failed(
    'ended_without_outcome',
    `The model made only calls that cannot be carried out in ${answers} answers in a row; the last one was to "${last.tool}". Use a model that supports tool calls.`,
  )

const isOf = (family: { types: string[]; statuses: number[] }, error: SessionErrorData): boolean =>
  family.types.includes(error.errorType) || family.statuses.includes(error.statusCode ?? 0)
