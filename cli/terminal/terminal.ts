import type { EnvSource } from '../../runtime/kit/parse-env.ts'
import { createPaint, type Paint, wantsColour } from './paint.ts'
import { createProgress, type Progress } from './progress.ts'

/** Streams, environment and folder of the process. Only `main.ts` reads them from `process`. */
export interface CliIo {
  readonly stdin: NodeJS.ReadStream & { readonly fd: number }
  readonly stdout: NodeJS.WriteStream
  readonly stderr: NodeJS.WriteStream
  readonly env: EnvSource
  readonly cwd: string
}

/** Data goes to stdout; messages for people go to stderr. */
export interface Terminal {
  readonly io: CliIo
  /** Writes lines of data. */
  print(lines: string | readonly string[]): void
  /** Writes one value as a line of JSON. */
  json(value: unknown): void
  /** Writes a message for the person. */
  note(lines: string | readonly string[]): void
  readonly paint: Paint
  readonly notePaint: Paint
  /** Width of stdout in columns. */
  readonly width: number
  /** Whether the person can be asked. */
  readonly isInteractive: boolean
  readonly progress: Progress
}

const MAX_WIDTH = 120

/** Control characters that JSON does not escape and that some terminals interpret. */
const C1_CONTROL = /[\u007f-\u009f]/g
const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`

export function createTerminal(io: CliIo): Terminal {
  const progress = createProgress(io.stderr)
  const write = (stream: NodeJS.WriteStream, lines: string | readonly string[]) => {
    progress.clear()
    const text = typeof lines === 'string' ? lines : lines.join('\n')
    if (typeof lines === 'string' || lines.length > 0) stream.write(`${text}\n`)
  }
  return {
    io,
    print: (lines) => write(io.stdout, lines),
    json: (value) => write(io.stdout, JSON.stringify(value).replaceAll(C1_CONTROL, escaped)),
    note: (lines) => write(io.stderr, lines),
    paint: createPaint(wantsColour(io.stdout, io.env)),
    notePaint: createPaint(wantsColour(io.stderr, io.env)),
    width: Math.min(io.stdout.columns ?? 100, MAX_WIDTH),
    isInteractive: io.stdin.isTTY === true && io.stderr.isTTY === true,
    progress,
  }
}
