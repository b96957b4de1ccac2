import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Recorded output of the CLI. `npm run test:pulumi -- --record` writes it. */
export const ANSWERS_FILE = fileURLToPath(new URL('recorded/pulumi-answers.json', import.meta.url))

/** Output and exit status of one real call. `events` is its event log without the events that no code reads. */
export interface PulumiAnswer {
  readonly command: string
  readonly status: number
  readonly stdout: string
  readonly stderr: string
  readonly events: string
}
export type AnswerName =
  | 'list'
  | 'export'
  | 'output'
  | 'select'
  | 'up'
  | 'destroy'
  | 'refused'
  | 'failed'
  | 'locked'
export interface PulumiAnswers {
  readonly cli: string
  readonly recorded: string
  readonly answers: Readonly<Record<AnswerName, PulumiAnswer>>
}

const parsed = () => JSON.parse(readFileSync(ANSWERS_FILE, 'utf8')) as PulumiAnswers

/** The recorded output, or nothing if the file does not exist. */
export const recordedSoFar = (): PulumiAnswers | undefined =>
  existsSync(ANSWERS_FILE) ? parsed() : undefined
export const readAnswers = (): PulumiAnswers['answers'] => parsed().answers
