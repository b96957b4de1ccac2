import { FINAL_STATES } from '../../../contracts/api.ts'
import type { AuditRecord, AuditVerification } from '../../../contracts/audit.ts'
import type { Finding, RoundFacts } from './facts.ts'

const OUTCOMES: readonly string[] = ['outcome', 'file.written']

/** The audit verifies, and each intent of a run that has ended has one outcome. */
export function checkTrail({ verification, records, runs }: RoundFacts): Finding[] {
  const ended = runs.filter(({ state }) => (FINAL_STATES as readonly string[]).includes(state))
  return [
    ...checkChains(verification).map((message) => ({ check: 'audit', message })),
    ...ended.flatMap(({ id }) =>
      checkIntents(records.filter(({ runId }) => runId === id)).map((message) => ({
        check: 'audit',
        run: id,
        message,
      })),
    ),
  ]
}

function checkChains(verification: AuditVerification | undefined): string[] {
  if (verification?.isComplete !== true) return ['could not be verified']
  return verification.ok ? [] : [`does not verify: ${JSON.stringify(verification.problems)}`]
}

function checkIntents(records: readonly AuditRecord[]): string[] {
  const intents = records.filter(({ kind }) => kind === 'intent')
  const outcomes = records.filter(({ kind }) => OUTCOMES.includes(kind))
  const of = (callId: string, list: readonly AuditRecord[]) =>
    list.filter((record) => record.callId === callId).length
  return intents.flatMap(({ callId, tool }) => [
    ...(of(callId, outcomes) === 1
      ? []
      : [`the intent of call ${callId} (${tool}) has ${of(callId, outcomes)} outcomes`]),
    ...(of(callId, intents) === 1 ? [] : [`call ${callId} (${tool}) has ${of(callId, intents)} intents`]),
  ])
}
