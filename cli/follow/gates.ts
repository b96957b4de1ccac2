import type { RunEvent } from '../../contracts/events.ts'
import type { Client } from '../../runtime/client/client.ts'
import { duration } from '../terminal/duration.ts'
import type { Paint } from '../terminal/paint.ts'
import { readable, visible } from '../terminal/visible.ts'
import { excerpt } from '../view/excerpt.ts'
import { requestWords } from '../view/request-words.ts'

type ApprovalEvent = Extract<RunEvent, { type: 'shell.approval_required' | 'tool.approval_required' }>
export type Gate = ApprovalEvent | Extract<RunEvent, { type: 'agent.question_asked' }>

export const isGate = (event: RunEvent): event is Gate =>
  event.type === 'shell.approval_required' ||
  event.type === 'tool.approval_required' ||
  event.type === 'agent.question_asked'

const CLOSING = /^(?:shell|tool)\.(?:approved|denied|expired|superseded)$|^agent\.question_answered$/

/** The request id that this event settles, if any. */
export function settledRequest({ type, data }: RunEvent): string | undefined {
  return CLOSING.test(type) && 'requestId' in data ? data.requestId : undefined
}

/**
 * Whether the service reports that a request was decided before. A stream that begins with earlier events repeats such requests. If
 * the service does not respond, the request counts as open.
 */
export const isDecided = (client: Client, runId: string, { data }: Gate): Promise<boolean> =>
  client.listApprovals(runId).then(
    ({ items }) => items.some(({ requestId, state }) => requestId === data.requestId && state !== 'pending'),
    () => false,
  )

export type GateAnswer =
  | { readonly kind: 'approve'; readonly scope: 'once' | 'run' }
  | { readonly kind: 'deny'; readonly reason: string | undefined }
  | { readonly kind: 'answer'; readonly answer: string }

export async function sendAnswer(client: Client, runId: string, given: { gate: Gate; answer: GateAnswer }) {
  const { gate, answer } = given
  const { requestId } = gate.data
  if (answer.kind === 'answer') {
    await client.answerQuestion(runId, { requestId, answer: answer.answer })
    return
  }
  const isShell = gate.type === 'shell.approval_required'
  if (answer.kind === 'approve') {
    const body = { requestId, scope: answer.scope }
    await (isShell ? client.approveShell(runId, body) : client.approveTool(runId, body))
    return
  }
  const body = { requestId, ...(answer.reason === undefined ? {} : { reason: answer.reason }) }
  await (isShell ? client.denyShell(runId, body) : client.denyTool(runId, body))
}

const placeOf = (directory: string) =>
  directory === '.' ? 'the workspace' : `${visible(directory)} of the workspace`

type GateLook = {
  readonly paint: Paint
  readonly width: number
  readonly now: number
  /** The command that prints the whole request. */
  readonly all: string
}

/** Shows exactly what would run, with hidden characters escaped. Long text is cut to its beginning and end. */
export function gateLines(gate: Gate, { paint, width, now, all }: GateLook): string[] {
  const { data } = gate
  const left = duration(Math.max(Date.parse(data.expiresAt) - now, 0))
  const expires = paint.dim(`Without an answer it expires in ${left}.`)
  if (gate.type === 'agent.question_asked') {
    const choices = (gate.data.choices ?? []).map((choice, index) => `    ${index + 1}  ${readable(choice)}`)
    return ['', paint.bold('The agent asks:'), `    ${readable(gate.data.question)}`, ...choices, expires]
  }
  const [what, body] =
    gate.type === 'shell.approval_required'
      ? [`The agent wants to run, in ${placeOf(gate.data.workingDirectory)}:`, gate.data.command]
      : [
          `The agent wants to use ${visible(gate.data.tool)}:`,
          requestWords(gate.data.tool, gate.data.request),
        ]
  const about =
    gate.data.matched.length > 0
      ? [paint.dim(`Asked because of the rule: ${visible(gate.data.matched.join(', '))}`)]
      : []
  const hidden = gate.data.redacted
    ? [paint.red('Part of it is redacted: it contains a secret that is not shown here.')]
    : []
  return ['', paint.bold(what), ...excerpt(body, { paint, width, all }), ...about, ...hidden, expires]
}

export function gatePrompt(gate: Gate): string {
  if (gate.type === 'agent.question_asked') return 'Your answer: '
  return gate.data.redacted
    ? 'Allow it? [y = yes, n = no] '
    : 'Allow it? [y = once, r = for this run, n = no] '
}

function parseQuestionAnswer(text: string, choices: readonly string[]): GateAnswer | undefined {
  if (text === '') return undefined
  return { kind: 'answer', answer: choices[Number(text) - 1] ?? text }
}

/** Parses the typed answer. Returns undefined if it is unclear. A denial may include a reason: `n because …`. */
export function parseGateAnswer(gate: Gate, typed: string): GateAnswer | undefined {
  const text = typed.trim()
  if (gate.type === 'agent.question_asked') return parseQuestionAnswer(text, gate.data.choices ?? [])
  const [word = '', ...rest] = text.split(/\s+/)
  const first = word.toLowerCase()
  if (first === 'y' || first === 'yes') return { kind: 'approve', scope: 'once' }
  if ((first === 'r' || first === 'run') && !gate.data.redacted) return { kind: 'approve', scope: 'run' }
  if (first === 'n' || first === 'no') return { kind: 'deny', reason: rest.join(' ') || undefined }
  return undefined
}

/** Commands to decide from another terminal. `suffix` selects the service. */
export function gateCommands(gate: Gate, runId: string, suffix: string): string[] {
  const { requestId } = gate.data
  if (gate.type === 'agent.question_asked') return [`agentweaver answer ${runId} ${requestId} TEXT${suffix}`]
  return [
    `agentweaver approve ${runId} ${requestId}${suffix}`,
    `agentweaver deny ${runId} ${requestId}${suffix}`,
  ]
}
