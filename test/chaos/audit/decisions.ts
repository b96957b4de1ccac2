import type { RunEvent } from '../../../contracts/events.ts'
import type { Finding, RunFacts } from './facts.ts'

const ANSWERS: Partial<Record<RunEvent['type'], string>> = {
  'shell.approved': 'approved',
  'shell.denied': 'denied',
  'shell.expired': 'expired',
  'shell.superseded': 'superseded',
  'tool.approved': 'approved',
  'tool.expired': 'expired',
  'tool.superseded': 'superseded',
  'agent.question_answered': 'answered',
}

/** Every request was decided at most once, and the decision that was accepted is the one that stands. */
export function checkDecisions(run: RunFacts): Finding[] {
  const messages = [
    ...run.approvals.flatMap((approval) => checkRequest(run, approval)),
    ...checkOwners(run),
    ...run.sentTurns.flatMap(({ prompt, ids }) => checkRepeats(`the turn "${prompt}"`, ids)),
    ...checkTurns(run),
    ...run.sentCommands.flatMap(({ name, commandIds }) =>
      checkRepeats(`the command ${name}`, [...commandIds]),
    ),
    ...(run.commandIds.length > run.sentCommands.length
      ? [`the store has ${run.commandIds.length} commands, and ${run.sentCommands.length} were sent`]
      : []),
  ]
  return messages.map((message) => ({ check: 'decisions', run: run.id, message }))
}

function checkRequest(run: RunFacts, { requestId, state }: RunFacts['approvals'][number]): string[] {
  const told = run.events.flatMap(({ event }) => {
    const word = ANSWERS[event.type]
    const isOfRequest = word !== undefined && 'requestId' in event.data && event.data.requestId === requestId
    return isOfRequest ? [word] : []
  })
  const accepted = run.decisions.filter(
    (sent) => sent.requestId === requestId && sent.status !== undefined && sent.status < 300,
  )
  const keys = new Set(accepted.map(({ key }) => key))
  const outcomes = new Set(accepted.map(({ outcome }) => outcome))
  const problems: string[] = []
  if (told.length > 1)
    problems.push(`request ${requestId} was decided ${told.length} times: ${told.join(', ')}`)
  if (keys.size > 1) problems.push(`request ${requestId}: ${keys.size} decisions were accepted`)
  for (const outcome of outcomes) {
    if (outcome !== state) problems.push(`request ${requestId} was accepted as ${outcome} and is ${state}`)
    if (told.length === 1 && told[0] !== outcome)
      problems.push(`request ${requestId} was accepted as ${outcome} and reported as ${told[0]}`)
    if (told.length === 0)
      problems.push(`request ${requestId} was accepted as ${outcome} and no event reports it`)
  }
  return problems
}

/** One call asks once, also when another sandbox announces it again. */
function checkOwners({ approvals }: RunFacts): string[] {
  const calls = approvals.map(({ callId }) => callId)
  const twice = new Set(calls.filter((call, index) => calls.indexOf(call) !== index))
  return [...twice].map((call) => `call ${call} has more than one request`)
}

const checkRepeats = (what: string, ids: readonly string[]): string[] =>
  new Set(ids).size > 1 ? [`${what} was sent once and taken ${new Set(ids).size} times`] : []

function checkTurns({ turns, sentTurns }: RunFacts): string[] {
  return sentTurns.flatMap(({ prompt }) => {
    const count = turns.filter((turn) => turn.prompt === prompt).length
    return count > 1 ? [`the turn "${prompt}" is stored ${count} times`] : []
  })
}
