import fc from 'fast-check'
import type { AuditHead } from '../../contracts/audit.ts'
import type { AuditDraft } from '../../runtime/audit/chain.ts'
import { type AuditKey, type AuditRow, recordOf } from '../../runtime/audit/record.ts'

export const OLD_KEY: AuditKey = { keyId: 'k1', key: new Uint8Array(32).fill(1) }
export const NEW_KEY: AuditKey = { keyId: 'k2', key: new Uint8Array(32).fill(2) }
export const KEYS = [OLD_KEY, NEW_KEY]

export const aDraft = (over: Partial<AuditDraft> = {}): AuditDraft => ({
  kind: 'intent',
  runId: 'run_1',
  callId: 'call-1',
  actor: 'agent:scripted',
  tool: 'run_command',
  params: { command: 'npm test' },
  policyVersion: 'p1',
  decision: 'allow',
  reasons: ['allowed by name'],
  at: '2026-01-01T00:00:00.000Z',
  ...over,
})

/** Drafts of one run, of any text and shape that a record may have. */
export const anyDraft: fc.Arbitrary<AuditDraft> = fc
  .record(
    {
      kind: fc.constantFrom('intent' as const, 'outcome' as const),
      callId: fc.string({ unit: 'binary' }),
      tool: fc.string({ unit: 'binary' }),
      params: fc.jsonValue(),
      decision: fc.constantFrom('allow', 'deny', 'ask', ''),
      reasons: fc.array(fc.string(), { maxLength: 3 }),
      durationMs: fc.nat(),
      exitCode: fc.integer({ min: 0, max: 255 }),
      outcome: fc.string(),
    },
    { requiredKeys: ['kind', 'callId', 'tool'] },
  )
  .map((fields) => ({
    runId: 'run_1',
    actor: 'a',
    policyVersion: 'p',
    at: '2026-01-01T00:00:00.000Z',
    ...fields,
  }))

/** The head under which the deployment's chain has sealed a run. */
export function sealedHead(deployment: readonly AuditRow[], runId: string): AuditHead | undefined {
  const sealed = deployment.map((row) => recordOf(row).sealed).findLast((seal) => seal?.runId === runId)
  return sealed && { count: sealed.count, mac: sealed.mac }
}
