import { type RunEnvelope, RunEvent, type RunEventType } from '../../../contracts/events.ts'
import { toJson, toText } from '../codec.ts'
import type { Scope, WriteScope } from '../engine.ts'
import type { EnvelopeOf } from '../event-reads.ts'
import { damaged, RowReader } from '../row-reader.ts'
import type { NewEvent } from '../store.ts'
import { lockRun } from './runs.ts'

/** SQLite allows at most 32,766 variables per statement, PostgreSQL 65,535. */
const ROWS_PER_INSERT = 1_000

type HostPosition = NonNullable<NewEvent['host']>
const keyOf = ({ generation, sequence }: HostPosition) => `${generation}.${sequence}`

/** The row lock on the run makes the sequence gap-free, and the check for known host events exact. */
export async function appendEvents(
  scope: WriteScope,
  runId: string,
  events: readonly NewEvent[],
): Promise<RunEnvelope[]> {
  if (events.length === 0) return []
  const run = await lockRun(scope, runId)
  const isNews = (host: HostPosition) =>
    host.generation === run.generation && host.sequence > run.hostSequence
  const doubtful = events.flatMap(({ host }) => (host && !isNews(host) ? [host] : []))
  const fresh = withoutKnown(events, await knownOf(scope, runId, doubtful))
  if (fresh.length === 0) return []

  const now = new Date().toISOString()
  const envelopes = fresh.map(({ event, at }, index) => ({
    sequence: run.lastSequence + 1 + index,
    at: at ?? now,
    event,
  }))
  await insertRows(scope, runId, { fresh, envelopes })
  const hostSequence = fresh.reduce(
    (highest, { host }) => (host?.generation === run.generation ? Math.max(highest, host.sequence) : highest),
    run.hostSequence,
  )
  await scope.db
    .updateTable('runs')
    .set({ last_sequence: run.lastSequence + fresh.length, host_sequence: hostSequence })
    .where('id', '=', runId)
    .execute()
  scope.announced.set(runId, [...(scope.announced.get(runId) ?? []), ...envelopes])
  return envelopes
}

async function insertRows(
  { db }: Scope,
  runId: string,
  { fresh, envelopes }: { fresh: readonly NewEvent[]; envelopes: readonly RunEnvelope[] },
): Promise<void> {
  const rows = envelopes.map(({ sequence, at, event }, index) => ({
    run_id: runId,
    sequence,
    at,
    event_json: toJson(event),
    host_generation: fresh[index]?.host?.generation ?? null,
    host_sequence: fresh[index]?.host?.sequence ?? null,
  }))
  for (let start = 0; start < rows.length; start += ROWS_PER_INSERT) {
    await db
      .insertInto('events')
      .values(rows.slice(start, start + ROWS_PER_INSERT))
      .execute()
  }
}

/** Which of these host positions the run has already. */
async function knownOf({ db }: Scope, runId: string, hosts: readonly HostPosition[]): Promise<Set<string>> {
  const known = new Set<string>()
  for (const [generation, group] of Map.groupBy(hosts, (host) => host.generation)) {
    const sequences = group.map(({ sequence }) => sequence)
    const rows = await db
      .selectFrom('events')
      .select('host_sequence as sequence')
      .where('run_id', '=', runId)
      .where('host_generation', '=', generation)
      .where('host_sequence', '>=', Math.min(...sequences))
      .where('host_sequence', '<=', Math.max(...sequences))
      .execute()
    for (const { sequence } of rows) if (sequence !== null) known.add(keyOf({ generation, sequence }))
  }
  return known
}

/** Drops events that are already stored, and duplicates within the batch. */
function withoutKnown(events: readonly NewEvent[], known: Set<string>): NewEvent[] {
  return events.filter(({ host }) => {
    if (!host) return true
    const key = keyOf(host)
    if (known.has(key)) return false
    known.add(key)
    return true
  })
}

export async function readEvents(
  { db }: Scope,
  runId: string,
  page: { after: number; limit: number },
): Promise<RunEnvelope[]> {
  const rows = await db
    .selectFrom('events')
    .select(['sequence', 'at', 'event_json'])
    .where('run_id', '=', toText(runId))
    .where('sequence', '>', page.after)
    .orderBy('sequence')
    .limit(page.limit)
    .execute()
  return rows.map(toEnvelope)
}

/** Events of one type, oldest first. The type is the first member of an event that the API has made. */
export async function readEventsOf<T extends RunEventType>(
  { db }: Scope,
  runId: string,
  { type, limit }: { readonly type: T; readonly limit: number },
): Promise<EnvelopeOf<T>[]> {
  const rows = await db
    .selectFrom('events')
    .select(['sequence', 'at', 'event_json'])
    .where('run_id', '=', toText(runId))
    .where('event_json', 'like', `{"type":"${type}",%`)
    .orderBy('sequence')
    .limit(limit)
    .execute()
  const isOfType = (envelope: RunEnvelope): envelope is EnvelopeOf<T> => envelope.event.type === type
  return rows.map(toEnvelope).filter(isOfType)
}

function toEnvelope(row: object): RunEnvelope {
  const at = new RowReader('events', row)
  const event: unknown = at.anyJson('event_json')
  if (!isRunEvent(event)) throw damaged('events', 'event_json')
  return { sequence: at.integer('sequence'), at: at.plain('at'), event }
}

const EVENT_TYPES: ReadonlySet<unknown> = new Set(RunEvent.options.map(({ shape }) => shape.type.value))

/**
 * Checks the outer form only. Every event was checked completely before it was stored, and a reader may read millions of
 * them.
 */
const isRunEvent = (value: unknown): value is RunEvent =>
  typeof value === 'object' &&
  value !== null &&
  'type' in value &&
  EVENT_TYPES.has(value.type) &&
  'data' in value &&
  typeof value.data === 'object' &&
  value.data !== null
