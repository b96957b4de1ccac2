import type { ToolOutcome } from '../../../../contracts/tools.ts'
import { present } from '../../../kit/present.ts'
import type { CallSummary } from '../../../store/call-row.ts'

const MAX_REQUEST = 300
const MAX_RESULT = 600

/** The stored summary of a call that has ended, for the preface of the next sandbox. */
export const summaryOf = (request: unknown, result?: string): CallSummary => ({
  request: cut(JSON.stringify(request) ?? '', MAX_REQUEST),
  ...present({ result: result === undefined ? undefined : cut(result, MAX_RESULT) }),
})

export const resultText = (outcome: ToolOutcome): string =>
  outcome.ok ? outcome.content : `${outcome.code}: ${outcome.message}`

const cut = (text: string, max: number) => (text.length <= max ? text : `${text.slice(0, max)}…`)
