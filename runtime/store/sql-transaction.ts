import type { WriteScope } from './engine.ts'
import type { Transaction } from './store.ts'
import { decideApproval, insertApproval, listApprovals, readApproval } from './tables/approvals.ts'
import { appendAudit, lockAuditHead } from './tables/audit.ts'
import { changeCall, insertCall, listCalls, readCall } from './tables/calls.ts'
import { bindClaim, changeClaim, upsertClaim } from './tables/claims.ts'
import { endCommand, insertCommand, readCommand } from './tables/commands.ts'
import { appendEvents } from './tables/events.ts'
import { changeRun, insertRun, readAndLockRun } from './tables/runs.ts'
import { changeTurn, insertTurn, listTurns } from './tables/turns.ts'

/** The table functions, bound to one open transaction. */
export const transactionOver = (scope: WriteScope): Transaction => ({
  insertRun: (run) => insertRun(scope, run),
  readRun: (id) => readAndLockRun(scope, id),
  changeRun: (id, change) => changeRun(scope, id, change),
  appendEvents: (runId, events) => appendEvents(scope, runId, events),

  insertTurn: (turn) => insertTurn(scope, turn),
  changeTurn: (id, state) => changeTurn(scope, id, state),
  listTurns: (runId, states) => listTurns(scope, runId, states),

  insertCommand: (command) => insertCommand(scope, command),
  endCommand: (id, result) => endCommand(scope, id, result),
  readCommand: (runId, id) => readCommand(scope, runId, id),

  insertApproval: (approval) => insertApproval(scope, approval),
  decideApproval: (requestId, change) => decideApproval(scope, requestId, change),
  readApproval: (runId, requestId) => readApproval(scope, runId, requestId),
  listApprovals: (runId, filter) => listApprovals(scope, runId, filter),

  insertCall: (call) => insertCall(scope, call),
  changeCall: (runId, callId, change) => changeCall(scope, { runId, callId }, change),
  readCall: (runId, callId) => readCall(scope, runId, callId),
  listCalls: (runId, states) => listCalls(scope, runId, states),

  auditHead: (runId) => lockAuditHead(scope, runId),
  appendAudit: (rows, head) => appendAudit(scope, rows, head),
  upsertClaim: (claim) => upsertClaim(scope, claim),
  changeClaim: (key, change) => changeClaim(scope, key, change),
  bindClaim: (key, ids) => bindClaim(scope, key, ids),
})
