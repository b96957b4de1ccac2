import type { AuditEntry, AuditPage, AuditVerification } from '../../contracts/audit.ts'
import type { Diagnostics } from '../../contracts/diagnostics.ts'
import type { ErasedData, OwnerDataLine } from '../../contracts/owner-data.ts'
import { SandboxSettings } from '../../contracts/policy.ts'
import type { PolicyProposal, ProposePolicy } from '../../contracts/policy-proposal.ts'
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

async function readAudit(caller: Caller): Promise<AuditPage> {
  requireOperator(caller)
  return auditOf('')
}

async function verifyAudit(caller: Caller): Promise<AsyncIterable<AuditVerification>> {
  requireOperator(caller)
  return (async function* () {
    yield { isComplete: true, ok: true, chains: 1, records: 1, problems: [], problemCount: 0 }
  })()
}

async function exportData(caller: Caller, owner: string): Promise<AsyncIterable<OwnerDataLine>> {
  if (owner !== caller.owner) requireOperator(caller)
  return (async function* () {
    yield { type: 'end' as const, runs: 0, events: 0, records: 0 }
  })()
}

async function eraseData(caller: Caller): Promise<AsyncIterable<ErasedData>> {
  requireOperator(caller)
  return (async function* () {
    yield { isComplete: true, runs: 0, events: 0, records: 0, keys: 0 }
  })()
}

async function readDiagnostics(caller: Caller): Promise<Diagnostics> {
  requireOperator(caller)
  const store = { engine: 'sqlite', usable: true } as const
  return { at: '2026-01-01T00:00:00.000Z', store, checks: [], replicas: [], pools: [] }
}

async function proposePolicy(_caller: Caller, { settings }: ProposePolicy): Promise<PolicyProposal> {
  const effective = SandboxSettings.parse(settings)
  return {
    path: '.agentweaver/settings.yml',
    base: { kind: 'none' },
    text: '',
    diff: '',
    settings: effective,
  }
}

/** What the service keeps of everybody, and the calls that keep nothing. */
export class MemoryRecords {
  readonly proposePolicy = proposePolicy
  readonly readAudit = readAudit
  readonly verifyAudit = verifyAudit
  readonly exportData = exportData
  readonly readDiagnostics = readDiagnostics
  readonly eraseData = eraseData
}
