/** The tokens that a request to a model may use, until its response has ended. */
export interface ReservationRow {
  readonly id: string
  readonly runId: string
  readonly tokens: number
}

export interface ReservationTransaction {
  /** `ms`: how long the proxy may take to report the use. */
  insertReservation(row: ReservationRow, ms: number): Promise<void>
  listReservations(runId: string): Promise<ReservationRow[]>
  /** Removes the reservation. Returns undefined if it does not exist. */
  takeReservation(id: string): Promise<ReservationRow | undefined>
  /** Removes the reservations of a run whose time is over, or all of them, and returns them. */
  takeLostReservations(runId: string, which: 'overdue' | 'all'): Promise<ReservationRow[]>
}
