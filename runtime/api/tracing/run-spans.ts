import { type Context, type Span, SpanStatusCode, type Tracer, trace } from '@opentelemetry/api'
import { ErrorCode } from '../../../contracts/errors.ts'
import type { RunEvent } from '../../../contracts/events.ts'
import { KnownRuns } from '../metrics/known-runs.ts'
import type { TracedEvent } from './tracing.ts'

type EventData<T extends RunEvent['type']> = Extract<RunEvent, { type: T }>['data']

/** The open spans of a run. */
type Open = {
  turn?: { readonly span: Span; readonly context: Context; input: number; output: number }
  readonly tools: Map<string, { readonly span: Span; readonly context: Context }>
}

const MAX_TOOLS = 1_000
/** Codes of calls that did not run. Any other text of a sandbox is not a label. */
const NOT_RUN = new Set(['denied', 'expired', 'superseded', 'policyDenied'])

const errorType = (code: string): string =>
  NOT_RUN.has(code) || ErrorCode.safeParse(code).success ? code : 'other'

/**
 * Spans of turns, tool calls and commands, by the GenAI conventions. They are made of the committed events of a run, because a
 * sandbox has no way to a collector. They have names, times and results, and no content: no prompt, no argument, no output.
 */
export class RunSpans {
  readonly #tracer: Tracer
  readonly #parentOf: (traceparent: string | undefined) => Context
  readonly #runs = new KnownRuns<Open>(() => ({ tools: new Map() }))

  constructor(tracer: Tracer, parentOf: (traceparent: string | undefined) => Context) {
    this.#tracer = tracer
    this.#parentOf = parentOf
  }

  note({ run, envelope: { event, at } }: TracedEvent): void {
    const time = new Date(at)
    switch (event.type) {
      case 'turn.started':
        this.#startTurn(run, time)
        break
      case 'turn.ended':
        this.#endTurn(run.id, event.data, time)
        break
      case 'agent.turn.usage':
        this.#addUsage(run.id, event.data)
        break
      case 'tool.call':
        this.#startTool(run, event.data, time)
        break
      case 'tool.result':
        this.#addCommand(run.id, event.data, time)
        this.#endTool(run.id, event.data.callId, { time, ...failureOf(event.data) })
        break
      case 'tool.error':
        this.#endTool(run.id, event.data.callId, { time, code: errorType(event.data.code) })
        break
      case 'run.suspended':
      case 'run.interrupted':
      case 'done':
        this.#endAll(run.id, time)
        break
    }
  }

  #startTurn(run: TracedEvent['run'], startTime: Date): void {
    const { kind, model } = run.agent
    const attributes = {
      'gen_ai.operation.name': 'invoke_agent',
      'gen_ai.agent.name': kind,
      'gen_ai.conversation.id': run.id,
      ...(model !== undefined && { 'gen_ai.request.model': model }),
    }
    const parent = this.#parentOf(run.traceparent)
    const span = this.#tracer.startSpan(`invoke_agent ${kind}`, { attributes, startTime }, parent)
    this.#runs.of(run.id).turn = { span, context: trace.setSpan(parent, span), input: 0, output: 0 }
  }

  #endTurn(runId: string, { state, code }: EventData<'turn.ended'>, time: Date): void {
    const open = this.#runs.get(runId)
    if (!open?.turn) return
    const { span, input, output } = open.turn
    delete open.turn
    if (input + output > 0) {
      span.setAttribute('gen_ai.usage.input_tokens', input)
      span.setAttribute('gen_ai.usage.output_tokens', output)
    }
    end(span, { time, ...(state === 'failed' && { code: code ?? 'agent_failed' }) })
  }

  #addUsage(runId: string, { inputTokens, outputTokens }: EventData<'agent.turn.usage'>): void {
    const turn = this.#runs.get(runId)?.turn
    if (!turn) return
    turn.input += inputTokens
    turn.output += outputTokens
  }

  #startTool(run: TracedEvent['run'], { callId, tool }: EventData<'tool.call'>, startTime: Date): void {
    const open = this.#runs.of(run.id)
    if (open.tools.size >= MAX_TOOLS) return
    // The turn began in another replica if it is not known here.
    const parent = open.turn?.context ?? this.#parentOf(run.traceparent)
    const attributes = {
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': tool,
      'gen_ai.tool.call.id': callId,
    }
    const span = this.#tracer.startSpan(`execute_tool ${tool}`, { attributes, startTime }, parent)
    open.tools.set(callId, { span, context: trace.setSpan(parent, span) })
  }

  #endTool(runId: string, callId: string, outcome: Outcome): void {
    const tools = this.#runs.get(runId)?.tools
    const tool = tools?.get(callId)
    if (!tool) return
    tools?.delete(callId)
    end(tool.span, outcome)
  }

  /** The command itself, without the time in which its call waited for a decision. */
  #addCommand(runId: string, { callId, outcome, durationMs }: EventData<'tool.result'>, time: Date): void {
    const tool = this.#runs.get(runId)?.tools.get(callId)
    const exitCode = outcome.ok ? outcome.facts['exitCode'] : undefined
    if (!tool || typeof exitCode !== 'number') return
    const startTime = new Date(time.getTime() - durationMs)
    const attributes = { 'process.exit.code': exitCode }
    this.#tracer.startSpan('command', { attributes, startTime }, tool.context).end(time)
  }

  #endAll(runId: string, time: Date): void {
    const open = this.#runs.get(runId)
    this.#runs.delete(runId)
    for (const { span } of open?.tools.values() ?? []) span.end(time)
    open?.turn?.span.end(time)
  }
}

type Outcome = { readonly time: Date; readonly code?: string }

function end(span: Span, { time, code }: Outcome): void {
  if (code !== undefined) {
    span.setAttribute('error.type', code)
    span.setStatus({ code: SpanStatusCode.ERROR })
  }
  span.end(time)
}

const failureOf = ({ outcome }: EventData<'tool.result'>): { readonly code?: string } =>
  outcome.ok ? {} : { code: errorType(outcome.code) }
