import type { Kysely } from 'kysely'
import { toJson, toText } from './codec.ts'
import type { Tables } from './schema.ts'

const PAGE = 500
const MAX_SUMMARY = 600

/** The parts of an event that matter here, as releases before this migration wrote them. */
interface PastEvent {
  readonly type: string
  readonly data: {
    readonly callId: string
    readonly turnId: string
    readonly request?: unknown
    readonly outcome?: { readonly content?: string; readonly code?: string; readonly message?: string }
  }
}

/**
 * Copies to the rows of calls and turns what earlier releases had only in the events, for every run that has not ended.
 * Reads each of these runs once, so that no driver must.
 */
export async function backfillCalls(db: Kysely<Tables>): Promise<void> {
  const runs = await db
    .selectFrom('runs')
    .select('id')
    .where('ended_at', 'is', null)
    .where('generation', '>', 0)
    .execute()
  for (const { id } of runs) {
    for (let after = 0; ; ) {
      const page = await db
        .selectFrom('events')
        .select(['sequence', 'event_json'])
        .where('run_id', '=', id)
        .where('sequence', '>', after)
        .orderBy('sequence')
        .limit(PAGE)
        .execute()
      for (const { sequence, event_json } of page)
        await apply(db, id, { sequence, event: JSON.parse(event_json) as PastEvent })
      after = page.at(-1)?.sequence ?? after
      if (page.length < PAGE) break
    }
  }
  // Earlier releases did not store whether a call was released: a call that ended was, unless it was refused.
  await db
    .updateTable('calls')
    .set({ was_released: 1 })
    .where((where) =>
      where.or([
        where('state', '=', 'released'),
        where.and([where('state', '=', 'ended'), where('decision_json', 'like', '%"outcome":"release"%')]),
        where.and([where('state', '=', 'ended'), where('decision_json', 'like', '%"outcome":"answer"%')]),
      ]),
    )
    .execute()
}

type Past = { readonly sequence: number; readonly event: PastEvent }

async function apply(db: Kysely<Tables>, runId: string, { sequence, event }: Past): Promise<void> {
  const { type, data } = event
  const call = db
    .updateTable('calls')
    .where('run_id', '=', runId)
    .where('call_id', '=', toText(data.callId ?? ''))
  if (type === 'tool.call') {
    await call
      .set({ sequence, request_json: toJson(data.request) })
      .where('state', '!=', 'ended')
      .execute()
    const summary = { request: toJson(data.request).slice(0, MAX_SUMMARY) }
    await call
      .set({ sequence, summary_json: toJson(summary) })
      .where('state', '=', 'ended')
      .execute()
  }
  if (type === 'tool.result') await summarize(db, runId, { sequence, event })
  if (type === 'turn.ended') {
    const { turnId, ...end } = data
    await db
      .updateTable('turns')
      .set({ end_json: toJson(end) })
      .where('id', '=', toText(turnId))
      .where('end_json', 'is', null)
      .execute()
  }
}

async function summarize(db: Kysely<Tables>, runId: string, { sequence, event }: Past): Promise<void> {
  const { callId, outcome } = event.data
  const call = await db
    .selectFrom('calls')
    .select('summary_json')
    .where('run_id', '=', runId)
    .where('call_id', '=', toText(callId))
    .executeTakeFirst()
  if (!call?.summary_json) return
  const result = (outcome?.content ?? `${outcome?.code}: ${outcome?.message}`).slice(0, MAX_SUMMARY)
  const summary = { ...(JSON.parse(call.summary_json) as object), result }
  await db
    .updateTable('calls')
    .set({ sequence, summary_json: toJson(summary) })
    .where('run_id', '=', runId)
    .where('call_id', '=', toText(callId))
    .execute()
}
