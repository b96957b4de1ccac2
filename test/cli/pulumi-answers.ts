import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Where the answers are; `npm run test:pulumi -- --record` writes them. */
export const ANSWERS_FILE = fileURLToPath(new URL('recorded/pulumi-answers.json', import.meta.url))

/** What one call of the real command printed and ended with; `events` is its event log, but for what no code reads. */
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

/** What is recorded so far; nothing while there is no file. */
export const recordedSoFar = (): PulumiAnswers | undefined =>
  existsSync(ANSWERS_FILE) ? parsed() : undefined
export const readAnswers = (): PulumiAnswers['answers'] => parsed().answers
