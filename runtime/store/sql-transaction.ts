import { present } from './codec.ts'
import type { WriteScope } from './engine.ts'
import type { Transaction } from './store.ts'
import { apiKeyTransaction } from './tables/api-keys.ts'
import { decideApproval, insertApproval, listApprovals, readApproval } from './tables/approvals.ts'
import { appendAudit, lockAuditHead } from './tables/audit.ts'
import { changeCall, insertCall, listCalls, listReleasedCalls, readCall } from './tables/calls.ts'
import { commitCheckpoint, copyCheckpoint } from './tables/checkpoints.ts'
import { bindClaim, changeClaim, readClaim, upsertClaim } from './tables/claims.ts'
import { endCommand, insertCommand, listRunningCommands, readCommand } from './tables/commands.ts'
import { contributionTransaction } from './tables/contributions.ts'
import { acceptReport, takenBytes } from './tables/egress.ts'
import { eraseRun } from './tables/erasure.ts'
import { appendEvents } from './tables/events.ts'
import { insertIdempotencyKey } from './tables/idempotency.ts'
import { pushTransaction } from './tables/pushed-branches.ts'
import {
  countRunsUnderWay,
  listQueueHeads,
  queueLeftBehind,
  readAttempts,
  waitForRoom,
} from './tables/queue.ts'
import { expireInQueue, restartQueueDeadlines } from './tables/queue-deadlines.ts'
import { reservationTransaction } from './tables/reservations.ts'
import { restrictionTransaction } from './tables/restrictions.ts'
import { lockIfFree } from './tables/run-lock.ts'
import { changeRun, changeRunState, countRuns, insertRun, readAndLockRun } from './tables/runs.ts'
import { readSetting, writeSetting } from './tables/settings.ts'
import { trustFirst } from './tables/trusted-folders.ts'
import {
  changeTurn,
  endTurn,
  insertTurn,
  lastEndedTurn,
  listTurns,
  readTurn,
  reportOutcome,
} from './tables/turns.ts'
import { userCredentialTransaction } from './tables/user-credentials.ts'

/** The table functions, bound to one open transaction. */
export const transactionOver = (scope: WriteScope): Transaction => ({
  insertRun: (run) => insertRun(scope, run),
  readRun: (id) => readAndLockRun(scope, id),
  changeRun: (id, change) => changeRun(scope, id, change),
  changeRunState: (id, move, facts = {}) => changeRunState(scope, id, { ...move, facts }),
  appendEvents: (runId, events) => appendEvents(scope, runId, events),
  announce: (runId) => void scope.announced.set(runId, scope.announced.get(runId) ?? []),
  countRuns: async (filter) => {
    await scope.engine.lockAdmission(scope.db)
    return countRuns(scope, filter)
  },

  lockRunIfFree: (id) => lockIfFree(scope, id),
  countRunsUnderWay: async (query) => {
    await scope.engine.lockAdmission(scope.db)
    return countRunsUnderWay(scope, query)
  },
  listQueueHeads: (query) => listQueueHeads(scope, query),
  waitForRoom: (id, wait) => waitForRoom(scope, id, wait),
  readAttempts: (id) => readAttempts(scope, id),
  expireInQueue: (id) => expireInQueue(scope, id),
  queueLeftBehind: (limit) => queueLeftBehind(scope, limit),
  restartQueueDeadlines: (of) => restartQueueDeadlines(scope, of),

  trustFirst: (folder) => trustFirst(scope, folder),
  acceptReport: acceptReport(scope),
  ...reservationTransaction(scope),
  ...takenBytes(scope),

  insertTurn: (turn) => insertTurn(scope, turn),
  changeTurn: (id, state, sentPrompt) => changeTurn(scope, id, { state, ...present({ sentPrompt }) }),
  endTurn: (id, end) => endTurn(scope, id, end),
  reportOutcome: (turnId, outcome) => reportOutcome(scope, turnId, outcome),
  listTurns: (runId, states) => listTurns(scope, runId, states),
  readTurn: (id) => readTurn(scope, id),
  lastEndedTurn: (runId) => lastEndedTurn(scope, runId),

  insertCommand: (command) => insertCommand(scope, command),
  endCommand: (id, result) => endCommand(scope, id, result),
  readCommand: (runId, id) => readCommand(scope, runId, id),
  listRunningCommands: (runId) => listRunningCommands(scope, runId),

  insertApproval: (approval) => insertApproval(scope, approval),
  decideApproval: (requestId, change) => decideApproval(scope, requestId, change),
  readApproval: (runId, requestId) => readApproval(scope, runId, requestId),
  listApprovals: (runId, filter) => listApprovals(scope, runId, filter),

  insertCall: (call) => insertCall(scope, call),
  changeCall: (runId, callId, change) => changeCall(scope, { runId, callId }, change),
  readCall: (runId, callId) => readCall(scope, runId, callId),
  listCalls: (runId, states) => listCalls(scope, runId, states),
  listReleasedCalls: (runId, page) => listReleasedCalls(scope, runId, page),

  auditHead: (runId) => lockAuditHead(scope, runId),
  appendAudit: (rows, head) => appendAudit(scope, rows, head),
  commitCheckpoint: (runId, checkpoint) => commitCheckpoint(scope, runId, checkpoint),
  copyCheckpoint: (parts, runs) => copyCheckpoint(scope, parts, runs),
  eraseRun: (id) => eraseRun(scope, id),
  insertIdempotencyKey: (row) => insertIdempotencyKey(scope, row),
  ...apiKeyTransaction(scope),
  ...userCredentialTransaction(scope),
  ...contributionTransaction(scope),
  ...pushTransaction(scope),
  readSetting: (name) => readSetting(scope, name),
  writeSetting: (name, value) => writeSetting(scope, name, value),
  ...restrictionTransaction(scope),
  readClaim: (key) => readClaim(scope, key),
  upsertClaim: (claim) => upsertClaim(scope, claim),
  changeClaim: (key, change) => changeClaim(scope, key, change),
  bindClaim: (key, ids) => bindClaim(scope, key, ids),
})
