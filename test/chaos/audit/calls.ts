import type { RunEnvelope, RunEvent } from '../../../contracts/events.ts'
import { MARK } from '../plan/shapes.ts'
import type { Finding, RunFacts } from './facts.ts'

type DataOf<T extends RunEvent['type']> = Extract<RunEvent, { type: T }>['data']
const dataOf = <T extends RunEvent['type']>(events: readonly RunEnvelope[], type: T): DataOf<T>[] =>
  events.flatMap(({ event }) => (event.type === type ? [event.data as DataOf<T>] : []))

/** Codes of a call that was not released. */
const NOT_RUN = new Set(['denied', 'expired', 'superseded', 'policyDenied', 'invalid_arguments'])

/** Every call took effect at most once, and one that reports success did. */
export function checkCalls(run: RunFacts): Finding[] {
  const calls = callsOf(run)
  const messages = [
    ...repeated(
      dataOf(run.events, 'tool.call').map(({ callId }) => callId),
      'was announced',
    ),
    ...repeated(endsOf(run.events), 'ended'),
    ...executionsOf(run),
    ...calls.flatMap((call) => checkMarks(run, call)),
  ]
  return messages.map((message) => ({ check: 'calls', run: run.id, message }))
}

const endsOf = (events: readonly RunEnvelope[]): string[] => [
  ...dataOf(events, 'tool.result').map(({ callId }) => callId),
  ...dataOf(events, 'tool.error').map(({ callId }) => callId),
]

function repeated(ids: readonly string[], what: string): string[] {
  const twice = new Set(ids.filter((id, index) => ids.indexOf(id) !== index))
  return [...twice].map((id) => `call ${id} ${what} twice`)
}

/** The output of a command shows its mark: one for each call, and no mark in two calls. */
function executionsOf(run: RunFacts): string[] {
  const owners = new Map<string, Set<string>>()
  const marks = new Map<string, Set<string>>()
  for (const { callId, commandId, chunk } of dataOf(run.events, 'command.output')) {
    const owner = callId ?? commandId
    for (const [, name, unique] of chunk.matchAll(MARK)) {
      const mark = `${name}.${unique}`
      owners.set(mark, (owners.get(mark) ?? new Set()).add(owner))
      marks.set(owner, (marks.get(owner) ?? new Set()).add(mark))
    }
  }
  return [
    ...[...marks].flatMap(([owner, own]) => (own.size > 1 ? [`call ${owner} ran ${own.size} times`] : [])),
    ...[...owners].flatMap(([mark, of]) =>
      of.size > 1 ? [`the output ${mark} appears in ${of.size} calls`] : [],
    ),
  ]
}

type CallsOfMark = {
  readonly name: string
  readonly callIds: readonly string[]
  readonly mayHaveRun: number
  readonly reportedSuccess: number
}

function callsOf(run: RunFacts): CallsOfMark[] {
  const refused = new Set(
    dataOf(run.events, 'tool.error').flatMap(({ callId, code }) => (NOT_RUN.has(code) ? [callId] : [])),
  )
  const succeeded = new Set([
    ...dataOf(run.events, 'tool.result').flatMap(({ callId, outcome }) =>
      isSuccess(outcome) ? [callId] : [],
    ),
    ...dataOf(run.events, 'command.exited').flatMap(({ commandId, callId, result }) =>
      callId === undefined && result.exitCode === 0 ? [commandId] : [],
    ),
  ])
  const byAgent = run.script.marks.map(({ name, command }) => {
    const made = dataOf(run.events, 'tool.call').filter(({ request }) => commandIn(request) === command)
    return { name, callIds: made.map(({ callId }) => callId) }
  })
  const byPerson = run.sentCommands.map(({ name, commandIds }) => ({ name, callIds: [...commandIds] }))
  return [...byAgent, ...byPerson].map(({ name, callIds }) => ({
    name,
    callIds,
    mayHaveRun: callIds.filter((id) => !refused.has(id)).length,
    reportedSuccess: callIds.filter((id) => succeeded.has(id)).length,
  }))
}

const isSuccess = (outcome: DataOf<'tool.result'>['outcome']): boolean =>
  outcome.ok && outcome.facts['exitCode'] === 0

const commandIn = (request: unknown): unknown =>
  typeof request === 'object' && request !== null && 'command' in request ? request.command : undefined

/** The files that the executions left, against the calls that may have run. */
function checkMarks({ marks }: RunFacts, { name, mayHaveRun, reportedSuccess }: CallsOfMark): string[] {
  if (marks === undefined) return []
  const ran = new Set(marks.filter((mark) => mark.startsWith(`${name}.`))).size
  if (ran > mayHaveRun) return [`${name} ran ${ran} times, and ${mayHaveRun} of its calls may have run`]
  if (ran < reportedSuccess) return [`${name} reports ${reportedSuccess} successes, and ran ${ran} times`]
  return []
}
