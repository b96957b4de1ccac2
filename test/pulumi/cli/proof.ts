import { appendFileSync } from 'node:fs'
import type { Ran } from './workspace.ts'

/** One documented command with its result: a row of docs/infra-proof.md. */
export interface Proof {
  readonly part: string
  readonly command: string
  readonly status: number | null
  readonly outcome: string
}
interface Proven {
  readonly part: string
  readonly command: string
  readonly ran: Ran
  /** The result. @default the counts of Pulumi's own summary */
  readonly outcome?: string
}

/** Records a command and its result. `npm run test:pulumi -- --record` creates the page from these records. */
export function prove({ part, command, ran, outcome = summaryOf(ran.text) }: Proven): void {
  const file = process.env['PROOFS'] ?? ''
  const proof: Proof = { part, command, status: ran.status, outcome }
  if (file !== '') appendFileSync(file, `${JSON.stringify(proof)}\n`)
}

/** Counts of Pulumi's own summary at the end: `98 created, 1 unchanged`. */
export function summaryOf(text: string): string {
  const block = [...text.matchAll(/^Resources:\n((?: {4}.*\n?)+)/gm)].at(-1)?.[1] ?? ''
  return block
    .split('\n')
    .map((line) => line.trim().replace(/^[-+~]+ ?/, ''))
    .filter((line) => /^\d+ /.test(line) && !/^\d+ changes?\b/.test(line))
    .join(', ')
}
