import type { AuditEntry, AuditPage, AuditVerification } from '../../contracts/audit.ts'
import type { Caller } from '../../runtime/api/runs/service.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'

const RECORD: AuditEntry = {
  version: 1,
  kind: 'intent',
  runId: '',
  sequence: 1,
  at: '2026-01-01T00:00:00.000Z',
  callId: 'call_1',
  actor: 'agent:scripted',
  tool: 'run_command',
  policyVersion: 'p1',
  keyId: 'k1',
  mac: 'ab',
}

export const auditOf = (runId: string): AuditPage => ({ items: [{ ...RECORD, runId }] })

function requireOperator({ role }: Caller): void {
  if (role !== 'operator') throw new SandboxError('forbidden', 'Only operators read the whole audit.')
}

export async function readAudit(caller: Caller): Promise<AuditPage> {
  requireOperator(caller)
  return auditOf('')
}

export async function verifyAudit(caller: Caller): Promise<AsyncIterable<AuditVerification>> {
  requireOperator(caller)
  return (async function* () {
    yield { isComplete: true, ok: true, chains: 1, records: 1, problems: [], problemCount: 0 }
  })()
}
