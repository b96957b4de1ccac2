import type { EnvSource } from '../../runtime/kit/parse-env.ts'
import { createPaint, type Paint, wantsColour } from './paint.ts'
import { createProgress, type Progress } from './progress.ts'

/** What the process was given. Only `main.ts` takes it from `process`. */
export interface CliIo {
  readonly stdin: NodeJS.ReadStream & { readonly fd: number }
  readonly stdout: NodeJS.WriteStream
  readonly stderr: NodeJS.WriteStream
  readonly env: EnvSource
  readonly cwd: string
}

/** Data goes to stdout, everything said to a person goes to stderr. */
export interface Terminal {
  readonly io: CliIo
  /** Writes lines of data. */
  print(lines: string | readonly string[]): void
  /** Writes one value as a line of JSON. */
  json(value: unknown): void
  /** Says something to the person. */
  note(lines: string | readonly string[]): void
  readonly paint: Paint
  readonly notePaint: Paint
  /** Columns of the data's terminal. */
  readonly width: number
  /** Whether somebody can be asked. */
  readonly isInteractive: boolean
  readonly progress: Progress
}

const MAX_WIDTH = 120

/** Controls that JSON leaves as they are and that some terminals obey. */
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
