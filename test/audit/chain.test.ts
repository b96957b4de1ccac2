import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { AuditHead } from '../../contracts/audit.ts'
import { chainRecords, sealRun } from '../../runtime/audit/chain.ts'
import { type AuditRow, EMPTY_CHAIN, recordOf } from '../../runtime/audit/record.ts'
import { canonicalJson } from '../../runtime/kit/canonical-json.ts'
import { aDraft, anyDraft, KEYS, NEW_KEY, OLD_KEY, sealedHead } from './drafts.ts'
import { verifyChain } from './verify-chain.ts'

describe('chainRecords', () => {
  it('writes a record in canonical form with its place, its key and a hash for the parameters', () => {
    const { rows, head } = chainRecords(EMPTY_CHAIN, [aDraft()], OLD_KEY)

    const record = recordOf(rows[0] as AuditRow)
    expect(rows).toHaveLength(1)
    expect(head.count).toBe(1)
    expect(rows[0]?.record).toBe(canonicalJson(record))
    expect(record).toMatchObject({
      version: 1,
      sequence: 1,
      keyId: 'k1',
      tool: 'run_command',
      decision: 'allow',
    })
    expect(record.paramsHash).toMatch(/^[0-9a-f]{64}$/)
  })

  it('copies the queried fields into columns next to the record', () => {
    const { rows } = chainRecords(EMPTY_CHAIN, [aDraft({ kind: 'outcome', outcome: 'ok' })], OLD_KEY)

    const { record: _record, mac: _mac, ...columns } = rows[0] as AuditRow
    expect(columns).toEqual({
      runId: 'run_1',
      sequence: 1,
      at: '2026-01-01T00:00:00.000Z',
      tool: 'run_command',
      decision: 'allow',
    })
  })

  it('never keeps the parameters, in any row or in the head', () => {
    const secret = 'hunter2-the-secret'

    const links = chainRecords(
      EMPTY_CHAIN,
      [aDraft({ params: { command: secret, nested: [{ [secret]: 1 }] } })],
      OLD_KEY,
    )

    expect(JSON.stringify(links)).not.toContain(secret)
    expect(JSON.stringify(chainRecords(EMPTY_CHAIN, [aDraft({ reasons: [secret] })], OLD_KEY))).toContain(
      secret,
    )
  })

  it('hashes equal parameters equally for any order of keys, and differently under another key', () => {
    const hashOf = (params: unknown, key = OLD_KEY) =>
      recordOf(chainRecords(EMPTY_CHAIN, [aDraft({ params })], key).rows[0] as AuditRow).paramsHash

    expect(hashOf({ a: 1, b: 2 })).toBe(hashOf({ b: 2, a: 1 }))
    expect(hashOf({ a: 1, b: 2 })).not.toBe(hashOf({ a: 1, b: 3 }))
    expect(hashOf({ a: 1, b: 2 })).not.toBe(hashOf({ a: 1, b: 2 }, NEW_KEY))
    expect(hashOf(undefined)).toBeUndefined()
  })

  it('leaves the head as it is without drafts', () => {
    expect(chainRecords(EMPTY_CHAIN, [], OLD_KEY)).toEqual({ rows: [], head: EMPTY_CHAIN })
  })

  it('refuses drafts of two runs', () => {
    const both = [aDraft(), aDraft({ runId: 'run_2' })]

    expect(() => chainRecords(EMPTY_CHAIN, both, OLD_KEY)).toThrow('several runs')
  })

  it('makes the same chain in one step as in many', () => {
    const drafts = [aDraft(), aDraft({ callId: 'b' }), aDraft({ callId: 'c' })]

    const once = chainRecords(EMPTY_CHAIN, drafts, OLD_KEY)
    const first = chainRecords(EMPTY_CHAIN, drafts.slice(0, 1), OLD_KEY)
    const rest = chainRecords(first.head, drafts.slice(1), OLD_KEY)

    expect([...first.rows, ...rest.rows]).toEqual(once.rows)
    expect(rest.head).toEqual(once.head)
  })
})

describe('sealRun', () => {
  it('puts the final head of a run into the chain of the deployment', () => {
    const run = chainRecords(EMPTY_CHAIN, [aDraft(), aDraft()], OLD_KEY)
    const at = '2026-01-02T00:00:00.000Z'

    const first = sealRun({ runId: 'run_0', head: EMPTY_CHAIN, at }, EMPTY_CHAIN, OLD_KEY)
    const second = sealRun({ runId: 'run_1', head: run.head, at }, first.head, OLD_KEY)

    const deployment = [...first.rows, ...second.rows]
    expect(deployment.map(({ runId }) => runId)).toEqual(['', ''])
    expect(verifyChain(deployment, second.head, [OLD_KEY])).toEqual({ ok: true })
    expect(sealedHead(deployment, 'run_1')).toEqual(run.head)
    expect(sealedHead(deployment, 'run_2')).toBeUndefined()
  })
})

type Model = { count: number; sealedAt: number | undefined }
type Real = { run: Chain; deployment: Chain }
type Chain = { rows: AuditRow[]; head: AuditHead }
type Step = fc.Command<Model, Real>

const appendStep = fc.tuple(fc.array(anyDraft, { maxLength: 4 }), fc.constantFrom(...KEYS)).map(
  ([drafts, key]): Step => ({
    check: () => true,
    run: (model, { run }) => {
      const { rows, head } = chainRecords(run.head, drafts, key)
      run.rows.push(...rows)
      run.head = head
      model.count += drafts.length
      expect(run.rows.map(({ sequence }) => sequence)).toEqual(run.rows.map((_, index) => index + 1))
      expect(run.head.count).toBe(model.count)
    },
    toString: () => `append ${drafts.length} under ${key.keyId}`,
  }),
)
const sealStep = fc.constantFrom(...KEYS).map(
  (key): Step => ({
    check: () => true,
    run: (model, { run, deployment }) => {
      const at = '2026-01-01T00:00:00.000Z'
      const { rows, head } = sealRun({ runId: 'run_1', head: run.head, at }, deployment.head, key)
      deployment.rows.push(...rows)
      deployment.head = head
      model.sealedAt = model.count
    },
    toString: () => `seal under ${key.keyId}`,
  }),
)
const verifyStep = fc.constant<Step>({
  check: () => true,
  run: (model, { run, deployment }) => {
    expect(verifyChain(run.rows, run.head, KEYS)).toEqual({ ok: true })
    expect(verifyChain(deployment.rows, deployment.head, KEYS)).toEqual({ ok: true })
    expect(sealedHead(deployment.rows, 'run_1')?.count).toBe(model.sealedAt)
  },
  toString: () => 'verify',
})

describe('a chain', () => {
  it('verifies at every point of its growth, under keys in rotation (model)', () => {
    fc.assert(
      fc.property(fc.commands([appendStep, sealStep, verifyStep], { maxCommands: 20 }), (steps) => {
        fc.modelRun(
          () => ({
            model: { count: 0, sealedAt: undefined },
            real: { run: { rows: [], head: EMPTY_CHAIN }, deployment: { rows: [], head: EMPTY_CHAIN } },
          }),
          [...steps],
        )
      }),
      { numRuns: 60 },
    )
  })
})
