import type { EgressReport, ReservationAnswer } from '../../../contracts/egress.ts'
import type { ReservationDecision, ReservationRequest } from '../../../contracts/egress-budgets.ts'

/** Asks the service of this machine for parts of budgets, and matches its responses. */
export class ReservationRequests {
  readonly #report: (report: EgressReport) => void
  readonly #waiting = new Map<number, PromiseWithResolvers<ReservationDecision>>()
  #last = 0

  constructor(report: (report: EgressReport) => void) {
    this.#report = report
  }

  reserve(request: ReservationRequest): Promise<ReservationDecision> {
    this.#last += 1
    const id = this.#last
    const waiting = Promise.withResolvers<ReservationDecision>()
    this.#waiting.set(id, waiting)
    this.#report({ type: 'reservation-wanted', id, request })
    return waiting.promise
  }

  answer({ id, decision }: ReservationAnswer): void {
    const waiting = this.#waiting.get(id)
    this.#waiting.delete(id)
    if (decision) waiting?.resolve(decision)
    else waiting?.reject(new Error('the service could not decide'))
  }
}
