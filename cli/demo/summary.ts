import type { RunEnvelope } from '../../contracts/events.ts'
import { duration } from '../terminal/duration.ts'
import type { Look } from '../view/row.ts'
import { row } from '../view/row.ts'
import { type CallRecord, callRecords } from './call-record.ts'
import { type Evidence, REFUSAL_CHECKS } from './checks.ts'
import { ENV_COMMAND, networkCommand, OUTSIDE_PATH } from './plan.ts'

export interface Timing {
  readonly sandboxMs: number | undefined
  readonly firstEventMs: number | undefined
  readonly totalMs: number
}

const time = (ms: number | undefined) => (ms === undefined ? 'never' : duration(ms))

/** The reason for a refusal, as the agent got it. */
const words = (call: CallRecord | undefined): string =>
  call?.refusal ?? call?.output.trim().split('\n').at(-1) ?? 'not tried'

/** The table at the end: durations, and the isolation of the commands. */
export function summary(look: Look, events: readonly RunEnvelope[], timing: Timing): string[] {
  const { paint } = look
  const selected = events.map(({ event }) => event).find((event) => event.type === 'sandbox.selected')
  return [
    ...row(look, 'sandbox', `after ${time(timing.sandboxMs)}`),
    ...row(look, 'event', `first one of the agent after ${time(timing.firstEventMs)}`),
    ...row(look, 'in all', duration(timing.totalMs)),
    ...row(
      look,
      'isolation',
      `${selected?.data.backend ?? 'none'}  ${paint.dim(selected?.data.reason ?? '')}`,
    ),
  ]
}

/** The scripted agent's three attempts and their results. */
export function refusals(look: Look, evidence: Evidence): string[] {
  const records = callRecords(evidence.events)
  const outside = records.find(({ request }) => request['path'] === OUTSIDE_PATH)
  const network = records.find(({ request }) => request['command'] === networkCommand(evidence.hostUrl))
  const environment = records.find(({ request }) => request['command'] === ENV_COMMAND)
  const variables = environment?.output.trim().split('\n').length ?? 0
  const told = [
    words(outside),
    words(network),
    `a command sees ${variables} variables, none of them the host's`,
  ]
  return REFUSAL_CHECKS.flatMap(({ what, holds }, index) =>
    holds(evidence)
      ? row(look, ['refused', 'green'], `${what}  ${look.paint.dim(told[index] ?? '')}`)
      : row(look, ['not shown', 'red'], what),
  )
}
