import type { RunEvent } from '../../contracts/events.ts'
import type { ExecResult } from '../../contracts/exec.ts'
import { duration } from '../terminal/duration.ts'
import { harmlessLine, visible } from '../terminal/visible.ts'
import { OutputLines } from './output-lines.ts'
import { type Look, quote, row } from './row.ts'

export interface ViewOptions {
  /** Maximum number of output lines shown per command. @default all */
  readonly outputLines?: number
  /** Option to append to printed command lines, so that they reach the same service. @default none */
  readonly suffix?: string
}

type Output = Extract<RunEvent, { type: 'command.output' }>['data']
type Exited = Extract<RunEvent, { type: 'command.exited' }>['data']
type Facts = Readonly<Record<string, unknown>>

export type CommandView = ReturnType<typeof createCommandView>

/** Shows a command's output line by line, and how it ended. The end is shown once, although two events report it. */
export function createCommandView(look: Look, { outputLines = Number.POSITIVE_INFINITY }: ViewOptions) {
  const output = new OutputLines()
  const shown = new Map<string, number>()
  const told = new Set<string>()
  const headed = new Set<string>()
  /** A command of a person has no call of the agent before it. */
  const headOf = (commandId: string, callId: string | undefined) => {
    if (callId !== undefined || headed.has(commandId)) return []
    headed.add(commandId)
    return row(look, ['exec', 'cyan'], `command of a person  ${look.paint.dim(visible(commandId))}`)
  }
  const show = (commandId: string, lines: readonly string[]) => {
    const before = shown.get(commandId) ?? 0
    shown.set(commandId, before + lines.length)
    return quote(
      look,
      lines
        .slice(0, Math.max(outputLines - before, 0))
        .map((line) => harmlessLine(line, look.paint.isColoured)),
    )
  }
  const end = (commandId: string, how: string) => {
    const rest = ['stdout', 'stderr'].flatMap((stream) => output.flush(commandId + stream))
    const lines = show(commandId, rest)
    const left = (shown.get(commandId) ?? 0) - outputLines
    shown.delete(commandId)
    return [
      ...lines,
      ...(left > 0 ? quote(look, [look.paint.dim(`… ${left} more lines`)]) : []),
      ...row(look, '', how),
    ]
  }
  const words = (how: string, ms: number) => `${how}  ${look.paint.dim(duration(ms))}`
  return {
    /** Another line names this command, so it gets no head. */
    named: (commandId: string) => void headed.add(commandId),
    output: ({ commandId, callId, stream, chunk }: Output) => [
      ...headOf(commandId, callId),
      ...show(commandId, output.take(commandId + stream, chunk)),
    ],
    exited({ commandId, callId, result }: Exited) {
      told.add(callId ?? commandId)
      return [...headOf(commandId, callId), ...end(commandId, words(exitWords(result), result.durationMs))]
    },
    /** Shows the end of a call for which no `command.exited` event came. */
    ended(callId: string, facts: Facts, ms: number) {
      return told.delete(callId) ? [] : end(callId, words(endWords(facts), ms))
    },
  }
}

/** How a command ended. */
const endWords = ({ timedOut, signal, exitCode }: Facts): string =>
  timedOut === true ? 'timed out' : visible(String(signal ?? `exit ${exitCode ?? '?'}`))

function exitWords(result: ExecResult): string {
  const how = endWords({ ...result })
  const why = result.message ? `: ${visible(result.message)}` : ''
  return `${how}${why}${result.outputTruncated ? ' (output cut)' : ''}`
}
