import type { SessionEvent } from '@github/copilot-sdk'
import type { TurnResult } from '../agent.ts'
import type { CopilotConfig } from './model-config.ts'

type Failed = Extract<TurnResult, { state: 'failed' }>
type SessionErrorData = Extract<SessionEvent, { type: 'session.error' }>['data']

const QUOTA = { types: ['quota', 'rate_limit'], statuses: [402, 429] }
const CREDENTIAL = { types: ['authentication', 'authorization'], statuses: [401, 403] }

/** Maximum length of a server's error text, because it becomes part of an event. */
const MAX_SERVER_WORDS = 2_000

/** Describes why a model request failed, and what to do. */
export function toFailure(error: SessionErrorData, { name, server, credential }: CopilotConfig): Failed {
  const said = error.message.slice(0, MAX_SERVER_WORDS)
  const status = error.statusCode === undefined ? '' : ` (HTTP ${error.statusCode})`
  if (isOf(QUOTA, error)) {
    return failed('agent_quota_exceeded', `${server} says that the quota is used up${status}: ${said}`)
  }
  if (isOf(CREDENTIAL, error)) {
    return failed('agent_failed', `${server} refused the credential${status}: check ${credential}`)
  }
  if (error.statusCode === 404) {
    return failed('agent_failed', `${server} has no model "${name}" at this address${status}`)
  }
  return failed('agent_failed', `${server} gave no usable answer${status}: ${said}`)
}

/** The failure for a turn in which the model refused. */
export const refused = (text: string): Failed =>
  failed(
    'agent_failed',
    `The model refused: ${text.slice(0, MAX_SERVER_WORDS)} Change the task, or use another model.`,
  )

const isOf = (family: { types: string[]; statuses: number[] }, error: SessionErrorData): boolean =>
  family.types.includes(error.errorType) || family.statuses.includes(error.statusCode ?? 0)

export const failed = (code: Failed['code'], message: string): Failed => ({ state: 'failed', code, message })
