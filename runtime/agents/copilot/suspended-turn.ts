import { randomUUID } from 'node:crypto'
import * as z from 'zod'
import type { ToolOutcome } from '../../../contracts/tools.ts'
import { UnusableCall, unknownTool } from './unusable-calls.ts'

/** A call of the model that the runtime handed to us, and its outcome once it has one. */
export type HandedCall = { readonly callId: string; readonly toolCallId: string; outcome?: ToolOutcome }

/** The open calls of the turn in which a session was exported. Part of the session's metadata. */
export const SuspendedTurn = z.strictObject({
  turnId: z.string(),
  openCalls: z
    .array(z.strictObject({ callId: z.string(), toolCallId: z.string() }))
    .min(1)
    .refine((calls) => new Set(calls.map(({ callId }) => callId)).size === calls.length, {
      // One decision would be meant for two calls.
      error: 'two open calls have one id',
    }),
  /** Calls of unknown tools in the same answer, which are recorded when the turn continues. */
  unusable: z.array(UnusableCall),
})
export type SuspendedTurn = z.infer<typeof SuspendedTurn>

/** An open call of a restored session. The runtime accepts the result under its own request id. */
export type PendingCall = {
  readonly callId: string
  readonly toolCallId: string
  readonly requestId: string
  readonly tool: string
  readonly arguments: unknown
}

/** The events of the runtime that describe tool calls, as it writes them to the session's `events.jsonl`. */
const Answer = z.object({
  type: z.literal('assistant.message'),
  data: z.object({
    toolRequests: z
      .array(z.object({ toolCallId: z.string(), name: z.string(), arguments: z.unknown() }))
      .default([]),
  }),
})
const Requested = z.object({
  type: z.literal('external_tool.requested'),
  data: z.object({
    requestId: z.string(),
    toolCallId: z.string(),
    toolName: z.string(),
    arguments: z.unknown(),
  }),
})
const Completed = z.object({
  type: z.literal('tool.execution_complete'),
  data: z.object({ toolCallId: z.string() }),
})

const CallRecord = z.discriminatedUnion('type', [Answer, Requested, Completed])

type Request = z.infer<typeof Requested>['data']

/** The calls of the model's last answer, as the file describes them. */
type LastAnswer = {
  readonly calls: z.infer<typeof Answer>['data']['toolRequests']
  /** Calls that the runtime handed to us, by the model's id. */
  readonly requested: ReadonlyMap<string, Request>
  readonly completed: ReadonlySet<string>
}

/** Reads the model's last answer and what became of its calls. Undefined if the file has no answer. */
function lastAnswerIn(events: string): LastAnswer | undefined {
  let calls: LastAnswer['calls'] | undefined
  const requested = new Map<string, Request>()
  const completed = new Set<string>()
  for (const line of events.trimEnd().split('\n')) {
    const { data: record } = CallRecord.safeParse(line === '' ? undefined : JSON.parse(line))
    if (record?.type === 'assistant.message') {
      calls = record.data.toolRequests
      requested.clear()
      completed.clear()
    } else if (record?.type === 'external_tool.requested') {
      requested.set(record.data.toolCallId, record.data)
    } else if (record) {
      completed.add(record.data.toolCallId)
    }
  }
  return calls && { calls, requested, completed }
}

type Suspending = { readonly handed: readonly HandedCall[]; readonly tools: ReadonlySet<string> }

type Suspended = { readonly events: string } & Omit<SuspendedTurn, 'turnId'>

/**
 * Prepares the events of a turn whose open calls wait for a decision. The runtime writes the results of an answer when all
 * of its calls have ended, so results that exist already are appended here. Returns undefined if the file does not describe
 * all calls, or describes two with one id: the turn could not be continued from it.
 */
export function suspendEvents(events: string, { handed, tools }: Suspending): Suspended | undefined {
  const answer = lastAnswerIn(events)
  const ids = new Set(answer?.calls.map(({ toolCallId }) => toolCallId))
  if (!answer || ids.size < answer.calls.length) return undefined
  if (!handed.every(({ toolCallId }) => ids.has(toolCallId))) return undefined
  const calls = answer.calls.filter(({ toolCallId }) => !answer.completed.has(toolCallId))
  // The runtime refuses a tool that was not offered without handing the call to us.
  const unknown = calls
    .filter(({ name }) => !tools.has(name))
    .map(({ toolCallId, name, arguments: args }) => ({ toolCallId, call: unknownTool(name, args) }))
  const known = calls
    .filter(({ name, toolCallId }) => tools.has(name) && answer.requested.has(toolCallId))
    .flatMap(({ toolCallId }) => handed.find((call) => call.toolCallId === toolCallId) ?? [])
  if (known.length + unknown.length < calls.length) return undefined
  const open = known.filter(({ outcome }) => outcome === undefined)
  if (open.length === 0) return undefined
  const results = [
    ...known.flatMap(({ toolCallId, outcome }) => (outcome ? [completion(toolCallId, outcome)] : [])),
    ...unknown.map(({ toolCallId, call }) => completion(toolCallId, { ok: false, ...call.error })),
  ]
  return {
    events: append(events, results),
    openCalls: open.map(({ callId, toolCallId }) => ({ callId, toolCallId })),
    unusable: unknown.map(({ call }) => call),
  }
}

const completion = (toolCallId: string, outcome: ToolOutcome) => ({
  type: 'tool.execution_complete',
  data: outcome.ok
    ? { toolCallId, success: true, result: { content: outcome.content } }
    : { toolCallId, success: false, error: { message: textOf(outcome), code: 'failure' } },
})

/** The text that the model gets for a call that failed. */
export const textOf = (outcome: Extract<ToolOutcome, { ok: false }>): string =>
  `${outcome.code}: ${outcome.message}`

/** Appends records in the format of the runtime, each of which names its predecessor. */
function append(events: string, records: readonly object[]): string {
  let parentId: unknown = JSON.parse(events.trimEnd().split('\n').at(-1) ?? '{}').id ?? null
  const lines = records.map((record) => {
    const line = { ...record, id: randomUUID(), timestamp: new Date().toISOString(), parentId }
    parentId = line.id
    return `${JSON.stringify(line)}\n`
  })
  return [events.endsWith('\n') ? events : `${events}\n`, ...lines].join('')
}

/**
 * Finds the open calls of a restored session. Undefined if the turn cannot be continued: a call is missing, or another call
 * has no result, for which the runtime would wait for ever.
 */
export function pendingCallsIn(events: string, { openCalls }: SuspendedTurn): PendingCall[] | undefined {
  const answer = lastAnswerIn(events)
  const open = answer?.calls.filter(({ toolCallId }) => !answer.completed.has(toolCallId)) ?? []
  const pending = open.flatMap(({ toolCallId }) => {
    const known = openCalls.find((call) => call.toolCallId === toolCallId)
    const request = answer?.requested.get(toolCallId)
    if (!known || !request) return []
    const { requestId, toolName: tool, arguments: args } = request
    return [{ ...known, requestId, tool, arguments: args }]
  })
  return pending.length === open.length && pending.length === openCalls.length ? pending : undefined
}
