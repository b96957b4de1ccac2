import { sql } from 'kysely'
import { toText } from '../codec.ts'
import type { Scope } from '../engine.ts'
import type { ReservationRow, ReservationTransaction } from '../reservations.ts'
import { RowReader } from '../row-reader.ts'

function toReservation(row: object): ReservationRow {
  const at = new RowReader('model_reservations', row)
  return { id: at.plain('id'), runId: at.plain('run_id'), tokens: at.integer('tokens') }
}

/** The row of the run is locked whenever its reservations change. */
export const reservationTransaction = ({ db, engine }: Scope): ReservationTransaction => ({
  async insertReservation({ id, runId, tokens }, ms) {
    const until = sql<number>`${engine.nowMs} + ${sql.lit(Math.round(ms))}`
    await db
      .insertInto('model_reservations')
      .values({ id: toText(id), run_id: toText(runId), tokens, until_ms: until })
      .execute()
  },
  async listReservations(runId) {
    const rows = await db
      .selectFrom('model_reservations')
      .selectAll()
      .where('run_id', '=', toText(runId))
      .execute()
    return rows.map(toReservation)
  },
  async takeReservation(id) {
    const row = await db
      .deleteFrom('model_reservations')
      .where('id', '=', toText(id))
      .returningAll()
      .executeTakeFirst()
    return row && toReservation(row)
  },
  async takeLostReservations(runId, which) {
    const ofRun = db.deleteFrom('model_reservations').where('run_id', '=', toText(runId))
    const lost = which === 'all' ? ofRun : ofRun.where('until_ms', '<=', engine.nowMs)
    const rows = await lost.returningAll().execute()
    return rows.map(toReservation)
  },
})
