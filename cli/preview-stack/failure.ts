import { type EngineEvent, findingOf } from '../../infra/model/engine-events.ts'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'

/** The stack could not be changed because another process holds its lock. */
export class StackLocked extends CliError {
  override readonly name = 'StackLocked'
  /** When the lock was taken; undefined if Pulumi's text does not contain the time. */
  readonly since: Date | undefined

  constructor(stack: string, said: string) {
    super(`${stack} is locked: ${lastLines(said)}`, {
      status: EXIT.runFailed,
      hint: `If nobody works on it, its lock was left by a run that was killed: pulumi cancel --stack ${stack}`,
    })
    const [, time = ''] = /\(pid \d+\) at (\S+)/.exec(said) ?? []
    this.since = Number.isNaN(Date.parse(time)) ? undefined : new Date(time)
  }
}

export interface FailedCall {
  /** Words of the command before its first option: `stack select`. */
  readonly command: string
  readonly stack: string
  /** The standard error of the command, or its standard output if that is empty. */
  readonly said: string
  /** Its event log, one line of JSON per event; empty if the command did not start. */
  readonly events: string
}

/** Findings that a person is shown; the rest is in the output above. */
const MAX_FINDINGS = 20
const MAX_LINES = 12

/** Why a command of Pulumi failed: what the policy pack refused and what went wrong, by resource. */
export function failureOf({ command, stack, said, events }: FailedCall): CliError {
  if (/currently locked by/.test(said)) return new StackLocked(stack, said)
  const findings = [...new Set(events.split('\n').flatMap((line) => findingOf(eventOf(line))))]
  const shown = findings.slice(0, MAX_FINDINGS)
  const rest = findings.length - shown.length
  const lines = [...shown, ...(rest > 0 ? [`and ${rest} more, in the output above`] : [])]
  const why = lines.length > 0 ? lines.map((line) => `  ${line}`).join('\n') : lastLines(said)
  return new CliError(`pulumi ${command} failed for ${stack === '' ? 'the project' : stack}:\n${why}`, {
    status: EXIT.runFailed,
  })
}

/** A run that was killed leaves half a line. */
function eventOf(line: string): EngineEvent {
  try {
    return JSON.parse(line) as EngineEvent
  } catch {
    return {}
  }
}

const lastLines = (said: string): string =>
  said
    .trim()
    .split('\n')
    .slice(-MAX_LINES)
    .map((line) => line.replace(/^error: /, ''))
    .join('\n')
