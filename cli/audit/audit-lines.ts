import {
  type AuditEntry,
  type AuditProblem,
  type AuditVerification,
  DEPLOYMENT_CHAIN,
} from '../../contracts/audit.ts'
import type { CliContext } from '../commands/command.ts'
import { table } from '../terminal/table.ts'
import { visible } from '../terminal/visible.ts'

export const entryTable = (entries: readonly AuditEntry[], { terminal }: CliContext): string[] =>
  table(
    entries,
    [
      { title: 'NO', value: ({ sequence }) => String(sequence) },
      { title: 'TIME', value: ({ at }) => visible(at) },
      { title: 'KIND', value: ({ kind }) => kind },
      { title: 'ACTOR', value: ({ actor }) => visible(actor) },
      { title: 'TOOL', value: ({ tool }) => visible(tool) },
      { title: 'WHAT', value: (entry) => visible(wordsOf(entry)) },
    ],
    { paint: terminal.paint, width: terminal.width },
  )

function wordsOf({ decision, outcome, exitCode, reasons, approval, sealed }: AuditEntry): string {
  const said = [
    decision,
    outcome,
    exitCode === undefined ? undefined : `exit ${exitCode}`,
    sealed && `${sealed.runId}, ${sealed.count} records`,
    approval && `request ${approval}`,
    ...(reasons ?? []),
  ]
  return said.filter((word) => word !== undefined && word !== '').join(' · ')
}

const PROBLEM_WORDS: Record<AuditProblem['problem'], string> = {
  dropped: 'records are missing here',
  reordered: 'records were put in another order',
  edited: 'a record, or the stored head of the chain, was changed',
  truncated: 'the records from here to the end are missing',
  duplicated: 'a record is there twice',
  unknownKey: 'the record has a key that you did not pass with --key',
  unsealed: 'the run has ended, and its seal is missing',
  unknownRun: 'neither a run nor a seal has this id',
}

export function verificationLines(report: AuditVerification, { terminal }: CliContext): string[] {
  const { ok, chains, records, problems, problemCount, head } = report
  const { paint } = terminal
  const headLine = head
    ? [`Head of the deployment's chain: ${head.count} records, ${head.mac || 'empty'}`]
    : []
  if (ok) return [`${paint.green('The audit is intact')}: ${chains} chains, ${records} records.`, ...headLine]
  const more = problemCount - problems.length
  return [
    `${paint.red('The audit was changed')}: ${problemCount} problems in ${chains} chains, ${records} records.`,
    ...problems.map(
      ({ chain, problem, at }) =>
        `  ${chain === DEPLOYMENT_CHAIN ? 'deployment' : visible(chain)}  ${problem} at record ${at}: ${PROBLEM_WORDS[problem]}`,
    ),
    ...(more > 0 ? [`  … ${more} more`] : []),
    ...headLine,
  ]
}
