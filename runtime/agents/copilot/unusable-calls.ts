import type { SessionEvent } from '@github/copilot-sdk'
import * as z from 'zod'
import { toolNameOf } from './answer-limit.ts'

/** A call that the agent runtime answered itself. */
export const UnusableCall = z.strictObject({
  tool: z.string(),
  arguments: z.unknown(),
  error: z.strictObject({ code: z.string(), message: z.string() }),
})
export type UnusableCall = z.infer<typeof UnusableCall>

/** The turn ends after this many responses in a row whose calls are all unusable. */
const MAX_UNUSABLE_ANSWERS = 3

/** Maximum size of arguments and of the runtime's error text, because they become part of an event. */
const MAX_SHOWN_ARGUMENTS = 65_536
const MAX_WORDS = 1_000

type Seen = {
  tool: string
  args: unknown
  /** Calls with this id that the runtime passed to the host, and calls that have a result. */
  handedOver: number
  completed: number
  words?: string
}

/**
 * Finds tool calls that the agent runtime does not pass to the host, because the tool does not exist or the arguments are
 * not a JSON object. Without this, they would leave no trace in the run. A model may use one id for several calls, so calls
 * are counted: if an id has more results than calls passed to the host, the runtime answered one itself.
 */
export class UnusableCalls {
  readonly #seen = new Map<string, Seen>()
  /** The last unusable call of the current answer. */
  #last: UnusableCall | undefined
  #unusableAnswers = 0

  /** The last of these calls, if the model has made no other calls in several responses in a row. */
  get givenUp(): { readonly answers: number; readonly last: UnusableCall } | undefined {
    if (this.#unusableAnswers < MAX_UNUSABLE_ANSWERS || !this.#last) return undefined
    return { answers: this.#unusableAnswers, last: this.#last }
  }

  /** Counts a call that the runtime passed to the host in an earlier process. */
  handedOver(toolCallId: string): void {
    this.#of(toolCallId).handedOver += 1
  }

  see(event: SessionEvent): UnusableCall | undefined {
    switch (event.type) {
      case 'assistant.turn_start':
        this.#last = undefined
        return undefined
      case 'assistant.turn_end':
        this.#endAnswer()
        return undefined
      case 'assistant.tool_call_delta':
        if (event.data.toolName !== undefined)
          this.#of(event.data.toolCallId).tool = toolNameOf(event.data.toolName)
        return undefined
      case 'tool.execution_start': {
        const seen = this.#of(event.data.toolCallId)
        seen.tool = toolNameOf(event.data.toolName)
        seen.args = event.data.arguments
        return undefined
      }
      case 'external_tool.requested':
        this.handedOver(event.data.toolCallId)
        return undefined
      case 'tool.execution_complete':
        return this.#complete(event.data)
      default:
        return undefined
    }
  }

  #complete({ toolCallId, error, toolTelemetry }: Completion): UnusableCall | undefined {
    const seen = this.#of(toolCallId)
    seen.completed += 1
    if (error) seen.words = error.message.slice(0, MAX_WORDS)
    if (seen.completed <= seen.handedOver) return undefined
    // The runtime reports unreadable arguments as an empty object.
    const isNoJson = Telemetry.safeParse(toolTelemetry).success
    const words = seen.words ?? 'the agent runtime rejected it'
    const why = isNoJson ? `its arguments are not JSON: ${words}` : words
    this.#last = unusable(seen.tool, isNoJson ? null : shown(seen.args), why)
    return this.#last
  }

  #endAnswer(): void {
    const isUnusable =
      this.#last !== undefined && [...this.#seen.values()].every(({ handedOver }) => handedOver === 0)
    this.#unusableAnswers = isUnusable ? this.#unusableAnswers + 1 : 0
    this.#seen.clear()
  }

  #of(id: string): Seen {
    const known = this.#seen.get(id)
    if (known) return known
    const seen = { tool: 'unknown', args: null, handedOver: 0, completed: 0 }
    this.#seen.set(id, seen)
    return seen
  }
}

/** A call of a tool that was not offered. */
export const unknownTool = (name: string, args: unknown): UnusableCall =>
  unusable(toolNameOf(name), shown(args), `Tool '${toolNameOf(name)}' does not exist.`)

const unusable = (tool: string, args: unknown, why: string): UnusableCall => ({
  tool,
  arguments: args,
  error: { code: 'unusable_call', message: `The model made a call that cannot be carried out: ${why}` },
})

/** The runtime's mark on a call whose arguments are not JSON. */
const Telemetry = z.object({ properties: z.object({ wasSyntaxError: z.literal('true') }) })

type Completion = Extract<SessionEvent, { type: 'tool.execution_complete' }>['data']

const shown = (args: unknown): unknown =>
  (JSON.stringify(args) ?? '').length <= MAX_SHOWN_ARGUMENTS ? (args ?? null) : null
