import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { chainRecords } from '../../runtime/audit/chain.ts'
import { type AuditRow, EMPTY_CHAIN } from '../../runtime/audit/record.ts'
import { aDraft, anyDraft, KEYS, NEW_KEY, OLD_KEY } from './drafts.ts'
import { verifyChain } from './verify-chain.ts'

const chainOf = (length: number) =>
  chainRecords(
    EMPTY_CHAIN,
    Array.from({ length }, (_, index) => aDraft({ callId: `call-${index}` })),
    OLD_KEY,
  )

const anyChain = fc.array(anyDraft, { minLength: 1, maxLength: 8 }).map((drafts) => {
  const half = Math.ceil(drafts.length / 2)
  const first = chainRecords(EMPTY_CHAIN, drafts.slice(0, half), OLD_KEY)
  const second = chainRecords(first.head, drafts.slice(half), NEW_KEY)
  return { rows: [...first.rows, ...second.rows], head: second.head }
})

/** Flips one bit of a text, never its meaning alone: any byte of a row counts. */
const flip = (text: string, at: number) => {
  const place = at % Math.max(text.length, 1)
  return text.slice(0, place) + String.fromCharCode(text.charCodeAt(place) ^ 1) + text.slice(place + 1)
}

const replaceAt = (rows: readonly AuditRow[], index: number, change: (row: AuditRow) => AuditRow) =>
  rows.map((row, place) => (place === index ? change(row) : row))

type Tamper = (rows: readonly AuditRow[], at: number, other: number) => AuditRow[]
const TAMPERS: Record<string, Tamper> = {
  drop: (rows, at) => rows.toSpliced(at, 1),
  duplicate: (rows, at, other) => rows.toSpliced(other, 0, rows[at] as AuditRow),
  truncate: (rows, at) => rows.slice(0, at),
  swap: (rows, at, other) =>
    rows.map((row, place) => (place === at ? rows[other] : place === other ? rows[at] : row) as AuditRow),
  editRecord: (rows, at, other) =>
    replaceAt(rows, at, (row) => ({ ...row, record: flip(row.record, other * 7) })),
  editMac: (rows, at, other) => replaceAt(rows, at, (row) => ({ ...row, mac: flip(row.mac, other * 7) })),
  editTool: (rows, at) => replaceAt(rows, at, (row) => ({ ...row, tool: `${row.tool}x` })),
  editDecision: (rows, at) => replaceAt(rows, at, (row) => ({ ...row, decision: `${row.decision}x` })),
  editTime: (rows, at) => replaceAt(rows, at, (row) => ({ ...row, at: '2027-01-01T00:00:00.000Z' })),
  editRun: (rows, at) => replaceAt(rows, at, (row) => ({ ...row, runId: 'run_2' })),
  editSequence: (rows, at) => replaceAt(rows, at, (row) => ({ ...row, sequence: row.sequence + 1 })),
}

describe('verifyChain', () => {
  it('accepts every untouched chain (control)', () => {
    fc.assert(fc.property(anyChain, ({ rows, head }) => verifyChain(rows, head, KEYS).ok))
  })

  it.each(Object.entries(TAMPERS))('finds %s of any record in any chain (property)', (name, tamper) => {
    fc.assert(
      fc.property(anyChain, fc.nat(), fc.nat(), ({ rows, head }, a, b) => {
        const [at, other] = [a % rows.length, b % rows.length]
        fc.pre(name !== 'swap' || at !== other)

        expect(verifyChain(tamper(rows, at, other), head, KEYS)).toMatchObject({ ok: false })
      }),
    )
  })

  it.each([
    ['dropped', 3, (rows: AuditRow[]) => rows.toSpliced(2, 1)],
    ['reordered', 2, (rows: AuditRow[]) => [rows[0], rows[2], rows[1], rows[3], rows[4]] as AuditRow[]],
    ['truncated', 4, (rows: AuditRow[]) => rows.slice(0, 3)],
    ['duplicated', 3, (rows: AuditRow[]) => rows.toSpliced(2, 0, rows[1] as AuditRow)],
    ['duplicated', 6, (rows: AuditRow[]) => [...rows, rows[4] as AuditRow]],
    [
      'edited',
      2,
      (rows: AuditRow[]) =>
        replaceAt(rows, 1, (row) => ({ ...row, record: row.record.replace('allow', 'adlow') })),
    ],
    ['edited', 1, (rows: AuditRow[]) => replaceAt(rows, 0, (row) => ({ ...row, record: 'not JSON' }))],
    ['edited', 2, (rows: AuditRow[]) => replaceAt(rows, 1, (row) => ({ ...row, runId: 'run_2' }))],
    ['edited', 5, (rows: AuditRow[]) => replaceAt(rows, 4, (row) => ({ ...row, runId: 'run_2' }))],
  ] as const)('reports a chain that was %s, with the position', (problem, at, tamper) => {
    const { rows, head } = chainOf(5)

    expect(verifyChain(tamper(rows), head, KEYS)).toEqual({ ok: false, at, problem })
  })

  it('detects truncated rows with a forged head, made without the key', () => {
    const { rows, head } = chainOf(5)
    const kept = rows.slice(0, 3)
    const forgedHead = { count: 3, mac: kept[2]?.mac ?? '' }
    const honest = chainOf(3)

    expect(verifyChain(kept, forgedHead, KEYS)).toMatchObject({ ok: false })
    expect(verifyChain(kept, { ...head, count: 3 }, KEYS)).toMatchObject({ ok: false })
    expect(verifyChain(honest.rows, honest.head, KEYS)).toEqual({ ok: true })
  })

  it('finds rows that are newer than the head', () => {
    const { rows } = chainOf(5)

    expect(verifyChain(rows, chainOf(4).head, KEYS)).toMatchObject({ ok: false })
  })

  it('finds the chain of another run under the name of this one', () => {
    const other = chainRecords(EMPTY_CHAIN, [aDraft({ runId: 'run_2' })], OLD_KEY)
    const renamed = other.rows.map((row) => ({ ...row, runId: 'run_1' }))

    expect(verifyChain(other.rows, other.head, KEYS)).toEqual({ ok: true })
    expect(verifyChain(renamed, other.head, KEYS)).toMatchObject({ ok: false })
    expect(verifyChain(renamed, chainOf(1).head, KEYS)).toMatchObject({ ok: false })
  })

  it('rejects a chain made with a foreign key, even under a known key id', () => {
    const forger = { keyId: OLD_KEY.keyId, key: new Uint8Array(32).fill(9) }
    const forged = chainRecords(EMPTY_CHAIN, [aDraft()], forger)

    expect(verifyChain(forged.rows, forged.head, [forger])).toEqual({ ok: true })
    expect(verifyChain(forged.rows, forged.head, KEYS)).toEqual({ ok: false, at: 1, problem: 'edited' })
  })

  it('says which record needs a key that was not given', () => {
    const first = chainRecords(EMPTY_CHAIN, [aDraft()], OLD_KEY)
    const second = chainRecords(first.head, [aDraft()], NEW_KEY)
    const rows = [...first.rows, ...second.rows]

    expect(verifyChain(rows, second.head, KEYS)).toEqual({ ok: true })
    expect(verifyChain(rows, second.head, [OLD_KEY])).toEqual({ ok: false, at: 2, problem: 'unknownKey' })
  })

  it('accepts the empty chain, and not an empty chain whose head says otherwise', () => {
    expect(verifyChain([], EMPTY_CHAIN, KEYS)).toEqual({ ok: true })
    expect(verifyChain([], chainOf(2).head, KEYS)).toEqual({ ok: false, at: 1, problem: 'truncated' })
    expect(verifyChain([], { count: 0, mac: 'x' }, KEYS)).toMatchObject({ ok: false })
  })
})
