import type { RunEvent } from '../../contracts/events.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'
import type { InterruptSignal } from '../terminal/interrupts.ts'
import { visible } from '../terminal/visible.ts'
import { createExits } from './exits.ts'
import type { FollowOptions } from './follow-options.ts'
import {
  type Gate,
  type GateAnswer,
  gateCommands,
  gateLines,
  gatePrompt,
  isDecided,
  isGate,
  parseGateAnswer,
  sendAnswer,
  settledRequest,
} from './gates.ts'
import { createQuestionQueue, type Question } from './question-queue.ts'

/** Codes that mean the request was already settled. The stream reports the decision. */
const DECIDED_ELSEWHERE = new Set(['already_decided', 'run_ended', 'not_found', 'conflict'])

/** The interactive part of following a run: questions of the run, and Ctrl-C. */
export function createSession(options: FollowOptions) {
  const { terminal, client, runId, suffix } = options
  const { notePaint } = terminal
  const stop = new AbortController()
  let interrupts = 0
  const fail = (error: unknown) => stop.abort(error)
  const exits = createExits(options, stop)
  const interrupt = (signal: InterruptSignal) => {
    interrupts += 1
    if (options.onInterrupt === 'leave' || signal === 'SIGHUP' || interrupts > 1) return exits.leave()
    if (!terminal.isInteractive) return exits.cancel()
    questions.interrupt({
      key: 'cancel',
      lines: [''],
      prompt: `Cancel the run? [y = cancel it, n = go on, Ctrl-C = ${options.isEmbedded ? 'end it at once' : 'leave it running'}] `,
      settle: async (answer) => {
        if (answer === undefined) exits.leave()
        else if (/^y(es)?$/i.test(answer.trim())) exits.cancel()
        else {
          interrupts = 0
          terminal.note('The run continues.')
        }
        return 'settled'
      },
    })
  }
  const questions = createQuestionQueue(terminal, { onInterrupt: () => interrupt('SIGINT'), onFault: fail })

  const onRefusal = (gate: Gate, error: SandboxError): 'settled' | 'again' => {
    if (error.code === 'forbidden') {
      // The run waits on, because another person may decide, and this one may deny.
      terminal.note([visible(error.message), ...gateCommands(gate, runId, suffix)])
      return 'again'
    }
    if (!DECIDED_ELSEWHERE.has(error.code)) throw error
    terminal.note(notePaint.dim(`The request was decided elsewhere (${error.code}).`))
    return 'settled'
  }
  const answerGate = async (gate: Gate, answer: GateAnswer): Promise<'settled' | 'again'> => {
    try {
      await sendAnswer(client, runId, { gate, answer })
    } catch (error) {
      if (!(error instanceof SandboxError)) throw error
      return onRefusal(gate, error)
    }
    return 'settled'
  }
  const handleGate = (gate: Gate) => {
    const decision = options.decide(gate)
    if (typeof decision === 'object') answerGate(gate, decision).catch(fail)
    else if (decision === 'ask' && terminal.isInteractive)
      questions.put(gateQuestion(gate, options, answerGate))
    else noteGate(options, gate).catch(fail)
  }
  return {
    signal: stop.signal,
    interrupt,
    hasCancelled: exits.hasCancelled,
    handle(event: RunEvent) {
      const settled = settledRequest(event)
      if (settled !== undefined) questions.withdraw(settled)
      if (isGate(event)) handleGate(event)
      if (event.type === 'turn.ended' && options.asksForTurns && !exits.hasCancelled())
        questions.put(turnQuestion(event.data.turnId, options, exits.leave))
    },
    close() {
      exits.close()
      questions.close()
      terminal.progress.clear()
    },
  }
}

/** Prints how to decide from another terminal. */
async function noteGate({ terminal, client, runId, suffix }: FollowOptions, gate: Gate): Promise<void> {
  if (await isDecided(client, runId, gate)) return
  const commands = gateCommands(gate, runId, suffix).map((line) => `  ${line}`)
  terminal.note(['The run waits for a decision. Decide with one of:', ...commands])
}

function gateQuestion(
  gate: Gate,
  { terminal, runId, suffix }: FollowOptions,
  answerGate: (gate: Gate, answer: GateAnswer) => Promise<'settled' | 'again'>,
): Question {
  return {
    key: gate.data.requestId,
    lines: gateLines(gate, {
      paint: terminal.notePaint,
      width: terminal.width,
      now: Date.now(),
      all: `agentweaver logs ${runId}${suffix}`,
    }),
    prompt: gatePrompt(gate),
    settle: async (typed) => {
      if (typed === undefined) {
        terminal.note(['', ...gateCommands(gate, runId, suffix)])
        return 'settled'
      }
      const answer = parseGateAnswer(gate, typed)
      if (!answer) return 'again'
      return answerGate(gate, answer)
    },
  }
}

function turnQuestion(
  turnId: string,
  { terminal, client, runId, suffix, isEmbedded }: FollowOptions,
  leave: () => void,
): Question {
  return {
    key: `after ${turnId}`,
    lines: [''],
    prompt: 'Next turn (Ctrl-D leaves): ',
    settle: async (typed) => {
      if (typed === undefined) {
        if (!isEmbedded) terminal.note(`End it with: agentweaver turn ${runId} TEXT --final${suffix}`)
        leave()
        return 'settled'
      }
      if (typed.trim() === '') return 'again'
      await client.startTurn(runId, { prompt: typed })
      return 'settled'
    },
  }
}
