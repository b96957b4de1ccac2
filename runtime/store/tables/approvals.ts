import { changed, present, toOptionalText, toText } from '../codec.ts'
import { ApprovalKinds, ApprovalScopes, ApprovalStates } from '../columns.ts'
import type { Scope } from '../engine.ts'
import { RowReader } from '../row-reader.ts'
import type { ApprovalRow } from '../store.ts'

/** A clock tick ends at most this many; the rest is found by the next. */
const EXPIRED_PER_PAGE = 500

function toApproval(row: object): ApprovalRow {
  const at = new RowReader('approvals', row)
  return {
    ...present({
      commandHash: at.optionalPlain('command_hash'),
      scope: at.optionalOneOf('scope', ApprovalScopes),
      decidedBy: at.optionalText('decided_by'),
      reason: at.optionalText('reason'),
      answer: at.optionalText('answer'),
    }),
    requestId: at.text('request_id'),
    runId: at.plain('run_id'),
    callId: at.text('call_id'),
    kind: at.oneOf('kind', ApprovalKinds),
    tool: at.text('tool'),
    binding: at.plain('binding'),
    redacted: at.flag('redacted'),
    state: at.oneOf('state', ApprovalStates),
    expiresAt: at.plain('expires_at'),
    createdAt: at.plain('created_at'),
  }
}

export async function insertApproval({ db }: Scope, approval: ApprovalRow): Promise<void> {
  await db
    .insertInto('approvals')
    .values({
      run_id: approval.runId,
      request_id: toText(approval.requestId),
      call_id: toText(approval.callId),
      kind: approval.kind,
      tool: toText(approval.tool),
      binding: approval.binding,
      command_hash: approval.commandHash ?? null,
      redacted: approval.redacted ? 1 : 0,
      state: approval.state,
      scope: approval.scope ?? null,
      decided_by: toOptionalText(approval.decidedBy),
      reason: toOptionalText(approval.reason),
      answer: toOptionalText(approval.answer),
      expires_at: approval.expiresAt,
      created_at: approval.createdAt,
    })
    .execute()
}

/** The fields that a decision may change. The request, and the call it is bound to, never change. */
export type ApprovalDecision = Pick<ApprovalRow, 'state'> & Partial<ApprovalRow>

/** The condition on the state lets exactly one of two simultaneous decisions succeed. */
export async function decideApproval(
  { db }: Scope,
  requestId: string,
  decision: ApprovalDecision,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('approvals')
    .set(
      changed({
        state: decision.state,
        scope: decision.scope,
        decided_by: decision.decidedBy === undefined ? undefined : toText(decision.decidedBy),
        reason: decision.reason === undefined ? undefined : toText(decision.reason),
        answer: decision.answer === undefined ? undefined : toText(decision.answer),
        expires_at: decision.expiresAt,
      }),
    )
    .where('request_id', '=', toText(requestId))
    .where('state', '=', 'pending')
    .executeTakeFirstOrThrow()
  return numUpdatedRows > 0n
}

export async function readApproval(
  { db }: Scope,
  runId: string,
  requestId: string,
): Promise<ApprovalRow | undefined> {
  const row = await db
    .selectFrom('approvals')
    .selectAll()
    .where('request_id', '=', toText(requestId))
    .where('run_id', '=', toText(runId))
    .executeTakeFirst()
  return row && toApproval(row)
}

export async function listApprovals(
  { db }: Scope,
  runId: string,
  filter: { state?: ApprovalRow['state']; commandHash?: string } = {},
): Promise<ApprovalRow[]> {
  let query = db
    .selectFrom('approvals')
    .selectAll()
    .where('run_id', '=', toText(runId))
    .orderBy('created_at')
    .orderBy('request_id')
  if (filter.state !== undefined) query = query.where('state', '=', filter.state)
  if (filter.commandHash !== undefined) query = query.where('command_hash', '=', toText(filter.commandHash))
  return (await query.execute()).map(toApproval)
}

/** Pending approvals whose time has expired, the longest overdue first. */
export async function listExpiredApprovals({ db }: Scope, now: string): Promise<ApprovalRow[]> {
  const rows = await db
    .selectFrom('approvals')
    .selectAll()
    .where('state', '=', 'pending')
    .where('expires_at', '<=', now)
    .orderBy('expires_at')
    .limit(EXPIRED_PER_PAGE)
    .execute()
  return rows.map(toApproval)
}
