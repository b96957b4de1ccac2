import { type FinishedCommand, MAX_LISTED_REFUSALS, type StartedCommand } from '../../../contracts/api.ts'
import type { EgressDenied } from '../../../contracts/egress.ts'
import type { RunEnvelope, RunEvent } from '../../../contracts/events.ts'
import type { ExecResult, OutputStream } from '../../../contracts/exec.ts'
import { HEARTBEAT_MS } from '../../../contracts/limits.ts'
import { SandboxError } from '../../kit/errors.ts'
import { failedExec } from '../../kit/failed-exec.ts'
import { withHeartbeat } from './sse.ts'

type Events = AsyncIterable<RunEnvelope>

type Command = Pick<StartedCommand, 'commandId'> & {
  /** Maximum size of the text of each stream. */
  readonly maxOutputBytes: number
  /** The events of the run, from the start of the command. */
  readonly readAgain: () => Promise<Events>
}

type End = {
  readonly result: ExecResult
  readonly refusals: EgressDenied[]
  /** Bytes of the text in the events. */
  readonly textBytes: Readonly<Record<OutputStream, number>>
}

/**
 * Writes a command as one JSON document, in pieces. While the command runs, only its end is awaited: the output is read
 * from the store afterwards, at the reader's pace, so that a waiting request needs little memory. Until then a line feed,
 * which JSON allows before a value, keeps the connection alive.
 */
export async function* finishedCommandJson(events: Events, command: Command): AsyncGenerator<string> {
  for await (const end of withHeartbeat(findEnd(events, command.commandId), HEARTBEAT_MS)) {
    if (end) yield* documentOf(command, end)
    else yield '\n'
  }
}

async function* findEnd(events: Events, commandId: string): AsyncGenerator<End> {
  const refusals: EgressDenied[] = []
  const textBytes = { stdout: 0, stderr: 0 }
  for await (const { event } of events) {
    if (event.type === 'egress.denied' && refusals.length < MAX_LISTED_REFUSALS) refusals.push(event.data)
    if (event.type === 'command.output' && event.data.commandId === commandId)
      textBytes[event.data.stream] += Buffer.byteLength(event.data.chunk)
    if (!endsCommand(event, commandId)) continue
    yield { result: resultOf(event, textBytes), refusals, textBytes }
    return
  }
  throw interrupted()
}

/** The end of a run ends all of its commands. */
const endsCommand = (event: RunEvent, commandId: string): boolean =>
  event.type === 'done' || (event.type === 'command.exited' && event.data.commandId === commandId)

function resultOf(event: RunEvent, { stdout, stderr }: End['textBytes']): ExecResult {
  if (event.type === 'command.exited') return event.data.result
  const lost = failedExec('lost', 'The run ended before the command did.')
  return { ...lost, stdoutBytes: stdout, stderrBytes: stderr }
}

async function* documentOf(command: Command, { result, refusals, textBytes }: End): AsyncGenerator<string> {
  const { outputTruncated, ...facts } = result
  const cutBefore = (written: number, text: number) => (outputTruncated ? Math.max(0, written - text) : 0)
  yield `{${membersOf({ commandId: command.commandId, ...facts })},"stdout":"`
  const stdout = yield* textOf(command, 'stdout')
  yield '","stderr":"'
  const stderr = yield* textOf(command, 'stderr')
  const rest = {
    outputTruncated: outputTruncated || stdout + stderr > 0,
    stdoutCutBytes: stdout + cutBefore(result.stdoutBytes, textBytes.stdout),
    stderrCutBytes: stderr + cutBefore(result.stderrBytes, textBytes.stderr),
    refusals,
  } satisfies Partial<FinishedCommand>
  yield `",${membersOf(rest)}}\n`
}

/** The members of a JSON object, without its braces. */
const membersOf = (object: object): string => JSON.stringify(object).slice(1, -1)

/** Writes the text of one stream as the inside of a JSON string. Returns the number of bytes that did not fit. */
async function* textOf(
  { commandId, maxOutputBytes, readAgain }: Command,
  stream: OutputStream,
): AsyncGenerator<string, number> {
  let room = maxOutputBytes
  let cut = 0
  for await (const { event } of await readAgain()) {
    if (endsCommand(event, commandId)) return cut
    if (event.type !== 'command.output') continue
    const { data } = event
    if (data.commandId !== commandId || data.stream !== stream) continue
    const kept = firstBytes(data.chunk, room)
    const keptBytes = Buffer.byteLength(kept)
    room = kept === data.chunk ? room - keptBytes : 0
    cut += Buffer.byteLength(data.chunk) - keptBytes
    yield JSON.stringify(kept).slice(1, -1)
  }
  throw interrupted()
}

/** The longest beginning of a text that fits, without a part of a character. */
function firstBytes(text: string, max: number): string {
  if (Buffer.byteLength(text) <= max) return text
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(max))
  return text.slice(0, read)
}

const interrupted = () =>
  new SandboxError(
    'unavailable',
    'The service stopped before the command ended. Repeat the request with the same Idempotency-Key.',
  )
