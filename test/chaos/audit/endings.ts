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

/** A run that succeeded has done all of its plan. */
function checkSuccess({ script, events, shape }: RunFacts): string[] {
  if (shape === 'sandbox') return []
  const ended = events.flatMap(({ event }) =>
    event.type === 'tool.result' || event.type === 'tool.error' ? [event.data.callId] : [],
  )
  const hasEnded = new Set(ended)
  return script.marks.flatMap(({ name, command }) => {
    const calls = events.flatMap(({ event }) => {
      const isCall =
        event.type === 'tool.call' && JSON.stringify(event.data.request).includes(JSON.stringify(command))
      return isCall ? [event.data.callId] : []
    })
    return calls.some((call) => hasEnded.has(call)) ? [] : [`succeeded, and ${name} never ended`]
  })
}

/** Each request to start a run has made one run. */
export function checkStarts({ requested, runsByIndex }: RoundFacts): Finding[] {
  return requested.flatMap((index) => {
    const count = runsByIndex[index] ?? 0
    return count === 1 ? [] : [{ check: 'starts', message: `request ${index} made ${count} runs` }]
  })
}
