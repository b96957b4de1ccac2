import { FINAL_STATES } from '../../../contracts/api.ts'
import type { Finding, RoundFacts, RunFacts } from './facts.ts'

const isFinal = (state: string): boolean => (FINAL_STATES as readonly string[]).includes(state)

/** What faults may do to a run: losses without a checkpoint, and too many of them. */
const EXPECTED_FAILURES = new Set(['sandbox_lost', 'api_restarted'])

/** Every run has ended, or waits for a person who can continue it; and it ended as it says. */
export function checkEndings(run: RunFacts): Finding[] {
  const messages = [...checkState(run), ...checkTruth(run)]
  return messages.map((message) => ({ check: 'endings', run: run.id, message }))
}

function checkState({ state, waitingFor, isLeft, openRequests }: RunFacts): string[] {
  if (isFinal(state)) return []
  const isWaiting = state === 'waiting' || state === 'suspended'
  if (!isLeft || !isWaiting) return [`is stranded: ${state}${waitingFor ? ` for ${waitingFor}` : ''}`]
  if (openRequests > 0) return []
  return [`is ${state} for ${waitingFor ?? 'nothing'}, and no request of it is open`]
}

function checkTruth(run: RunFacts): string[] {
  const { state, events, failureCode: code } = run
  if (!isFinal(state)) return []
  const done = events.flatMap(({ event }) => (event.type === 'done' ? [event.data.state] : []))
  const problems: string[] = []
  if (done.length !== 1 || done[0] !== state)
    problems.push(`is ${state}, and its last event says ${done.join() || 'nothing'}`)
  if (code !== undefined && !EXPECTED_FAILURES.has(code))
    problems.push(`failed with ${code}: ${run.failureMessage}`)
  if (state === 'cancelled' && !run.hasCancelled && run.shape !== 'sandbox')
    problems.push('was cancelled without a request')
  if (state === 'succeeded') problems.push(...checkSuccess(run))
  return problems
}

/** A run that succeeded has done all of its plan, except turns for which it did the steps of a lost turn again. */
function checkSuccess({ script, events, shape }: RunFacts): string[] {
  if (shape === 'sandbox') return []
  const leftOut = JSON.stringify(script.turns.slice(Math.max(0, script.turns.length - repeatedTurns(events))))
  const ended = events.flatMap(({ event }) =>
    event.type === 'tool.result' || event.type === 'tool.error' ? [event.data.callId] : [],
  )
  const hasEnded = new Set(ended)
  const due = script.marks.filter(({ command }) => !leftOut.includes(JSON.stringify(command)))
  return due.flatMap(({ name, command }) => {
    const calls = events.flatMap(({ event }) => {
      const isCall =
        event.type === 'tool.call' && JSON.stringify(event.data.request).includes(JSON.stringify(command))
      return isCall ? [event.data.callId] : []
    })
    return calls.some((call) => hasEnded.has(call)) ? [] : [`succeeded, and ${name} never ended`]
  })
}

/**
 * The service may be killed between the end of a turn and its checkpoint. The agent is then started without a memory of this turn, and
 * does the steps of this turn again when it gets the next one.
 */
function repeatedTurns(events: RunFacts['events']): number {
  const turnsOf = new Map<string, Set<string>>()
  for (const { event } of events) {
    if (event.type !== 'tool.call' || event.data.tool !== 'run_command') continue
    const command = JSON.stringify(event.data.request)
    const turns = turnsOf.get(command) ?? new Set()
    turnsOf.set(command, turns.add(event.data.callId.split('.')[0] ?? ''))
  }
  const repeated = new Set([...turnsOf.values()].flatMap((turns) => [...turns].slice(1)))
  const interruptions = events.filter(({ event }) => event.type === 'run.interrupted')
  return Math.min(repeated.size, interruptions.length)
}

/** Each request to start a run has made one run. */
export function checkStarts({ requested, runsByIndex }: RoundFacts): Finding[] {
  return requested.flatMap((index) => {
    const count = runsByIndex[index] ?? 0
    return count === 1 ? [] : [{ check: 'starts', message: `request ${index} made ${count} runs` }]
  })
}
