import { describe, expect, it } from 'vitest'
import { chainRecords, sealRun } from '../../runtime/audit/chain.ts'
import { entryOf } from '../../runtime/audit/entry.ts'
import { toJsonLine } from '../../runtime/audit/json-lines.ts'
import { toOcsf } from '../../runtime/audit/ocsf.ts'
import { type AuditRow, EMPTY_CHAIN } from '../../runtime/audit/record.ts'
import { canonicalJson } from '../../runtime/kit/canonical-json.ts'
import { aDraft, OLD_KEY } from './drafts.ts'
import { verifyChain } from './verify-chain.ts'

const chain = chainRecords(
  EMPTY_CHAIN,
  [
    aDraft({ tool: 'read_file' }),
    aDraft({ decision: 'deny', reasons: ['outside the workspace'] }),
    aDraft({ decision: 'ask', approval: 'req_1' }),
    aDraft({ kind: 'outcome', outcome: 'ok', exitCode: 0, durationMs: 12.6, bytes: 34 }),
    aDraft({ kind: 'outcome', outcome: 'sandbox_lost' }),
  ],
  OLD_KEY,
)

const entries = chain.rows.map(entryOf)

describe('toJsonLine', () => {
  it('writes a line per record from which the chain can be verified elsewhere', () => {
    const lines = entries.map(toJsonLine)

    const read = lines.map((line) => {
      const { mac, ...record } = JSON.parse(line)
      const { runId, sequence, at, tool, decision = '' } = record
      return { runId, sequence, at, tool, decision, record: canonicalJson(record), mac } satisfies AuditRow
    })
    expect(read).toEqual(chain.rows)
    expect(verifyChain(read, chain.head, [OLD_KEY])).toEqual({ ok: true })
  })
})

describe('toOcsf', () => {
  const events = entries.map(toOcsf)

  it('writes API Activity with every attribute that the class requires', () => {
    for (const event of events) {
      expect(event).toMatchObject({
        category_uid: 6,
        class_uid: 6003,
        severity_id: 1,
        time: Date.parse('2026-01-01T00:00:00.000Z'),
        actor: { user: { name: 'agent:scripted' } },
        api: { operation: expect.any(String) },
        src_endpoint: { name: expect.any(String) },
        metadata: { version: '1.6.0', product: { vendor_name: expect.any(String) } },
      })
    }
  })

  it('derives the type from the class and the activity', () => {
    expect(events.map((event) => Reflect.get(event, 'activity_id'))).toEqual([2, 99, 99, 99, 99])
    expect(events.map((event) => Reflect.get(event, 'type_uid'))).toEqual([
      600302, 600399, 600399, 600399, 600399,
    ])
  })

  it('exports decisions with the profile for security controls', () => {
    expect(events[0]).toMatchObject({
      action_id: 1,
      disposition_id: 1,
      metadata: { profiles: ['security_control'] },
    })
    expect(events[1]).toMatchObject({ action_id: 2, disposition_id: 2 })
    expect(events[2]).toMatchObject({ action_id: 99, action: 'ask', unmapped: { approval: 'req_1' } })
  })

  it('exports outcomes as status, with duration and exit code', () => {
    expect(events[0]).toMatchObject({ status_id: 0 })
    expect(events[3]).toMatchObject({
      status_id: 1,
      duration: 13,
      api: { response: { code: 0, message: 'ok' } },
    })
    expect(events[4]).toMatchObject({ status_id: 2, status_detail: 'sandbox_lost' })
  })

  it('identifies an event by its run and sequence, and keeps fields without an OCSF attribute as unmapped', () => {
    const { rows } = sealRun(
      { runId: 'run_1', head: chain.head, at: '2026-01-01T00:00:00.000Z' },
      EMPTY_CHAIN,
      OLD_KEY,
    )

    const [seal] = rows.map(entryOf).map(toOcsf)

    expect(events[1]).toMatchObject({ metadata: { uid: 'run_1:2', correlation_uid: 'call-1' } })
    expect(events[1]).toMatchObject({ unmapped: { key_id: 'k1', reasons: ['outside the workspace'] } })
    expect(seal).toMatchObject({ unmapped: { sealed: { runId: 'run_1', count: 5, mac: chain.head.mac } } })
    expect(seal).not.toHaveProperty('action_id')
  })
})
