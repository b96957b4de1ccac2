import { CallDecision } from '../../../../contracts/decisions.ts'
import type { HostEnvelope, HostEvent, RunEvent } from '../../../../contracts/events.ts'
import { CONTROL_TOOL_ARGUMENTS, type ToolOutcome } from '../../../../contracts/tools.ts'
import type { AuditDraft } from '../../../audit/chain.ts'
import { SandboxError } from '../../../kit/errors.ts'
import { present } from '../../../kit/present.ts'
import type { CallRow } from '../../../store/call-row.ts'
import type { ApprovalRow, Held, NewEvent, RunRow, Transaction } from '../../../store/store.ts'
import type { AuditTrail } from '../audit-trail.ts'
import { type SpentBudget, spend, usesOf } from '../budgets/spend.ts'
import { commandEnd } from '../command-records.ts'
import type { RunDeps, RunGovernance } from '../deps.ts'
import { bindingOf, Gate } from '../gates/gate.ts'
import { requireHeld } from '../held-run.ts'
import { transition } from '../machine/transition.ts'
import { resultText, summaryOf } from './call-summary.ts'
import { RedactedEvents } from './redacted-events.ts'

type EventData<T extends HostEvent['type']> = Extract<HostEvent, { type: T }>['data']

/** The consequences of a committed batch for the driver of the run. */
export type Committed = {
  readonly through: number
  /** What may be acknowledged, and so forgotten by the sandbox: who drives the run after this process reads the rest again. */
  readonly ackThrough: number
  readonly decisions: CallDecision[]
  readonly approvals: ApprovalRow[]
  readonly endedTurns: EventData<'turn.ended'>[]
  readonly endedCommands: string[]
  /** Whether every open call of the turn waits for a person, after this batch. */
  waitsForPeople: boolean
  /** A budget of the run that is used up. */
  spent?: SpentBudget
}

export type Batch = {
  readonly runId: string
  readonly generation: number
  readonly envelopes: readonly HostEnvelope[]
}

/** One batch while its transaction is open. */
type Work = {
  readonly tx: Transaction
  readonly run: RunRow
  readonly events: NewEvent[]
  readonly redacted: RedactedEvents
  readonly committed: Omit<Committed, 'ackThrough'>
  /** Calls that waited when the last sandbox was given back, and that this one has not announced again. */
  readonly carried: Set<string>
  /** Whether a call was announced or ended. */
  callsChanged: boolean
}

/**
 * The committer of one run. Stores a batch of a sandbox's events in one transaction: the events, redacted a second
 * time; their effects on calls, approvals, turns and commands; and the audit records. Skips events that are already
 * committed.
 */
export class BatchCommitter {
  readonly #deps: RunDeps
  readonly #audit: AuditTrail
  readonly #governance: RunGovernance
  readonly #gate: Gate
  /** As of the last commit; a transaction that fails leaves it alone. */
  #redacted: RedactedEvents
  readonly #held: Held

  /** `after`: the last event of the sandbox that is not read again. */
  constructor(deps: RunDeps, audit: AuditTrail, { run, after }: { run: RunRow; after: number }) {
    this.#held = run
    this.#deps = deps
    this.#audit = audit
    this.#governance = deps.governance.forRun(run.settings, run.touched)
    this.#gate = new Gate(deps, audit, this.#governance)
    this.#redacted = new RedactedEvents(deps.openRedactor(run), after)
  }

  async commit({ runId, generation, envelopes }: Batch): Promise<Committed> {
    const through = envelopes.at(-1)?.sequence ?? 0
    const { committed, redacted } = await this.#deps.store.transaction(async (tx) => {
      const run = requireHeld(this.#held, await tx.readRun(runId))
      if (run.endedAt !== undefined)
        throw new SandboxError('conflict', `another process ended the run ${runId}`)
      const work: Work = {
        tx,
        run,
        events: [],
        redacted: this.#redacted.copy(),
        committed: {
          through,
          decisions: [],
          approvals: [],
          endedTurns: [],
          endedCommands: [],
          waitsForPeople: false,
        },
        carried: new Set(run.carriedCalls),
        callsChanged: false,
      }
      if (run.generation === generation) await this.#commitTo(work, envelopes)
      return work
    })
    this.#redacted = redacted
    return { ...committed, ackThrough: Math.min(through, redacted.settledThrough) }
  }

  async #commitTo(work: Work, envelopes: readonly HostEnvelope[]): Promise<void> {
    const { tx, run, events, redacted } = work
    for (const envelope of envelopes) {
      if (envelope.sequence > run.hostSequence) await this.#apply(work, envelope)
      else {
        redacted.redact(envelope)
        await this.#recallCommitted(work, envelope.event)
      }
    }
    await this.#spend(work)
    await this.#settleState(work)
    await this.#keepTouched(work)
    const hostSequence = Math.max(run.hostSequence, envelopes.at(-1)?.sequence ?? 0)
    const hostReread = hostSequence - redacted.settledThrough
    // The store keeps the number of the last stored event. Events whose text was held back have no number.
    const isKept = events.at(-1)?.host?.sequence === hostSequence
    if (!isKept || hostReread !== run.hostReread) await tx.changeRun(run.id, { hostSequence, hostReread })
    if (run.firstEventAt === undefined && events.some(({ event }) => isOfAgent(event))) {
      await tx.changeRun(run.id, { firstEventAt: this.#deps.clock().toISOString() })
    }
  }

  /** A driver that continues the run starts with this, and reads no earlier event. */
  async #keepTouched({ tx, run }: Work): Promise<void> {
    const { touched } = this.#governance
    if (touched.secret && !run.touched.secret) await tx.changeRun(run.id, { touched })
  }

  /** Stores the events and counts their use in one transaction, so that a repeated batch counts once. */
  async #spend({ tx, run, events, committed }: Work): Promise<void> {
    const isRouted = this.#deps.modelProxy?.routes(run) ?? false
    const uses = usesOf(
      events.map(({ event }) => event),
      isRouted,
    )
    const { usage, notices, spent } = spend(run, uses)
    await tx.appendEvents(run.id, [...events, ...notices.map((event) => ({ event }))])
    if (events.length > 0) await tx.changeRun(run.id, { usage })
    if (!spent) return
    committed.spent = spent
    // The run ends: no further call is released.
    committed.decisions.length = 0
  }

  /** The run waits while every open call of its turn waits for a person. */
  async #settleState(work: Work): Promise<void> {
    const { tx, run, committed, carried, callsChanged } = work
    if (carried.size !== run.carriedCalls.length) await tx.changeRun(run.id, { carriedCalls: [...carried] })
    committed.waitsForPeople = run.state === 'waiting' && run.waiting?.for !== 'turn'
    if (!callsChanged || (run.state !== 'running' && run.state !== 'waiting')) return
    const open = await tx.listCalls(run.id, ['open', 'released'])
    const calls = open.filter(({ actor }) => actor === undefined)
    const waits = calls.length > 0 && calls.every(({ state }) => state === 'open')
    committed.waitsForPeople = waits
    if (waits && run.state === 'running') await this.#beginToWait(work)
    if (!waits && run.state === 'waiting') await transition(tx, run, { event: { kind: 'call_goes_on' } })
  }

  async #beginToWait({ tx, run }: Work): Promise<void> {
    const pending = await tx.listApprovals(run.id, { state: 'pending' })
    const isQuestion = pending.every(({ kind }) => kind === 'question')
    const since = this.#deps.clock().toISOString()
    const waiting = { for: isQuestion ? 'question' : 'approval', since } as const
    await transition(tx, run, { event: { kind: 'calls_wait' }, facts: { waiting } })
  }

  async #apply(work: Work, envelope: HostEnvelope): Promise<void> {
    const host = { sequence: envelope.sequence, generation: work.run.generation }
    const redacted = work.redacted.redact(envelope)
    for (const [index, event] of redacted.entries()) {
      // The host's number belongs to the event itself, which comes last; text that was held back has none.
      const isItself = index === redacted.length - 1
      const isKnown = event.type === 'tool.call' && work.carried.has(event.data.callId)
      if (!isKnown) work.events.push({ event, at: envelope.at, ...(isItself && { host }) })
      await this.#follow(work, event)
    }
  }

  /**
   * Handles an event that is already stored, because a new driver reads it again or a commit got no response. Its
   * consequences are reported again; sandbox and driver apply each of them once.
   */
  async #recallCommitted({ tx, run, committed }: Work, event: HostEvent): Promise<void> {
    if (event.type === 'turn.ended') committed.endedTurns.push(event.data)
    if (event.type === 'command.exited' && event.data.callId === undefined)
      committed.endedCommands.push(event.data.commandId)
    if (event.type !== 'tool.call') return
    const call = await tx.readCall(run.id, event.data.callId)
    if (call && call.state !== 'ended' && call.decision) committed.decisions.push(call.decision)
    const pending = await tx.listApprovals(run.id, { state: 'pending' })
    committed.approvals.push(...pending.filter(({ callId }) => callId === event.data.callId))
  }

  /** Applies the effects of an event, except for storing it. */
  async #follow(work: Work, event: HostEvent): Promise<void> {
    switch (event.type) {
      case 'tool.call':
        return this.#onCall(work, event.data)
      case 'tool.result':
        return this.#onResult(work, event.data)
      case 'tool.error':
        return this.#onError(work, event.data)
      case 'command.exited':
        return this.#onCommandExited(work, event.data)
      case 'turn.ended':
        return this.#onTurnEnded(work, event.data)
      default:
        return undefined
    }
  }

  async #onCall(work: Work, call: EventData<'tool.call'>): Promise<void> {
    const { tx, run, committed } = work
    work.callsChanged = true
    const known = await tx.readCall(run.id, call.callId)
    if (known && work.carried.has(call.callId)) return this.#onCarriedCall(work, call, known)
    if (known) throw forged('announced a call for the second time')
    const { events, decision, approval } = await this.#gate.onCall(tx, run, {
      call,
      sequence: sequenceOf(work),
    })
    work.events.push(...events.map((event) => ({ event })))
    // A call that the sandbox itself refused does not wait for an answer.
    if (call.verdict !== 'deny') committed.decisions.push(decision)
    if (approval) committed.approvals.push(approval)
    if (decision.outcome === 'release') this.#governance.observe({ tool: call.tool, arguments: call.request })
  }

  /** Sends the decision, or `pending`, for a call that waited when the last sandbox was released. */
  async #onCarriedCall(work: Work, call: EventData<'tool.call'>, known: CallRow): Promise<void> {
    const { tx, run, committed, carried } = work
    const approvals = await tx.listApprovals(run.id)
    const approval = approvals.find(({ callId }) => callId === call.callId)
    if (approval?.binding !== bindingOf(run, call) || known.tool !== call.tool)
      throw forged('announced another request under the id of a call that waits')
    if (known.state === 'ended') throw forged('announced a call that has ended')
    carried.delete(call.callId)
    if (call.verdict === 'deny') return
    const refusal = await this.#gate.refuseCarried(tx, run, { call, approval })
    if (refusal) work.events.push(...refusal.events.map((event) => ({ event })))
    committed.decisions.push(refusal?.decision ?? CallDecision.parse(known.decision))
    if (!refusal && approval.state === 'pending') committed.approvals.push(approval)
  }

  async #onTurnEnded(work: Work, ended: EventData<'turn.ended'>): Promise<void> {
    const { tx, run, committed } = work
    const sent = await tx.listTurns(run.id, ['sent'])
    if (!sent.some(({ id }) => id === ended.turnId)) throw forged('ended a turn that this run did not send')
    const { turnId, state, ...reason } = ended
    await tx.endTurn(turnId, { state, ...present(reason) })
    work.carried.clear()
    await tx.changeRun(run.id, { losses: 0 })
    committed.endedTurns.push(ended)
  }

  async #onResult(work: Work, result: EventData<'tool.result'>): Promise<void> {
    const call = await work.tx.readCall(work.run.id, result.callId)
    refuseCarried(work, result.callId)
    if (call?.state !== 'released' || call.tool !== result.tool)
      throw forged('reported the result of a call that was not released')
    const { tool, request } = call
    this.#governance.observe({ tool, arguments: request }, result.outcome.ok ? result.outcome.content : '')
    const facts = outcomeFacts(result.outcome, result.durationMs)
    await this.#endCall(work, call, { result: resultText(result.outcome), facts })
    const said = CONTROL_TOOL_ARGUMENTS.report_outcome.safeParse(request)
    if (result.tool !== 'report_outcome' || !result.outcome.ok || !said.success) return
    const { outcome, summary } = said.data
    const reported = { outcome, ...present({ summary }) }
    await work.tx.changeRun(work.run.id, { outcome: reported })
    const [turn] = await work.tx.listTurns(work.run.id, ['sent'])
    if (turn) await work.tx.reportOutcome(turn.id, reported)
  }

  /** Closes the call, unless it has ended or was never announced: then there is no intent that waits for an outcome. */
  async #onError(work: Work, { callId, code, message }: EventData<'tool.error'>): Promise<void> {
    refuseCarried(work, callId)
    const call = await work.tx.readCall(work.run.id, callId)
    if (!call || call.state === 'ended') return
    await this.#endCall(work, call, { result: `${code}: ${message}`, facts: { outcome: code } })
  }

  async #endCall(
    work: Work,
    { callId, tool, request }: CallRow,
    { result, facts }: { readonly result: string; readonly facts: Partial<AuditDraft> },
  ): Promise<void> {
    const { tx, run } = work
    work.callsChanged = true
    const summary = summaryOf(request, result)
    await tx.changeCall(run.id, callId, { state: 'ended', summary, sequence: sequenceOf(work) })
    await this.#audit.append(tx, run.id, [
      {
        kind: 'outcome',
        runId: run.id,
        callId,
        actor: `agent:${run.agent.kind}`,
        tool,
        policyVersion: run.policyVersion,
        at: this.#deps.clock().toISOString(),
        ...facts,
      },
    ])
  }

  async #onCommandExited(
    work: Work,
    { commandId, callId, result }: EventData<'command.exited'>,
  ): Promise<void> {
    if (callId !== undefined) return
    const known = await work.tx.readCommand(work.run.id, commandId)
    if (!known) throw forged('ended a command that this run did not start')
    work.committed.endedCommands.push(commandId)
    if (known.state === 'ended') return
    await work.tx.endCommand(commandId, result)
    const { reason: outcome, durationMs, exitCode } = result
    const facts = {
      outcome,
      durationMs,
      bytes: result.stdoutBytes + result.stderrBytes,
      ...(exitCode !== null && { exitCode }),
      at: this.#deps.clock().toISOString(),
    }
    await this.#audit.append(work.tx, work.run.id, [commandEnd(work.run, known, facts)])
  }
}

/** The sequence of the last event that this batch has appended so far. */
const sequenceOf = ({ run, events }: Work): number => run.lastSequence + events.length

/** A call that the last sandbox announced must be announced again before its outcome. */
function refuseCarried({ carried }: Work, callId: string): void {
  if (carried.has(callId)) throw forged('reported the outcome of a call that it has not announced')
}

/** The sandbox sent an impossible event, so nothing that it sends can be trusted any more. */
const forged = (what: string) => new ForgedEvent('sandbox_lost', `the sandbox ${what}`)

/** The run of a sandbox that sends what cannot have happened ends; it does not continue in another sandbox. */
export class ForgedEvent extends SandboxError {}

function outcomeFacts(outcome: ToolOutcome, durationMs: number): Partial<AuditDraft> {
  if (!outcome.ok) return { outcome: outcome.code, durationMs }
  const { exitCode, bytes } = outcome.facts
  return {
    outcome: 'ok',
    durationMs,
    ...(typeof exitCode === 'number' && { exitCode }),
    bytes: typeof bytes === 'number' ? bytes : Buffer.byteLength(outcome.content),
  }
}

const isOfAgent = (event: RunEvent) => event.type.startsWith('agent.') || event.type.startsWith('tool.')
