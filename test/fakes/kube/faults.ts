/** A planted fault of a request. `after`: the request was executed, and only its response is lost. */
export type Fault =
  | {
      readonly kind: 'status'
      readonly status: number
      readonly retryAfterSeconds?: number
      readonly reason?: string
      readonly message?: string
    }
  | { readonly kind: 'silent'; readonly after?: boolean }
  | { readonly kind: 'reset'; readonly after?: boolean }
  /** The connection closes after half of the response. */
  | { readonly kind: 'cut' }
  /** The response is late. */
  | { readonly kind: 'slow'; readonly ms: number }

export type FaultPlace = { readonly verb: string; readonly plural?: string }
type Planned = { readonly place: FaultPlace; readonly fault: Fault; left: number }

/** Faults that wait for the requests they were planned for. */
export function createFaults() {
  let planned: Planned[] = []
  return {
    /** The next `times` requests of that kind fail in this way. */
    plan(place: FaultPlace, fault: Fault, times = 1): void {
      planned.push({ place, fault, left: times })
    },
    clear(): void {
      planned = []
    },
    take(verb: string, plural: string): Fault | undefined {
      const found = planned.find(
        ({ place, left }) =>
          left > 0 && place.verb === verb && (place.plural === undefined || place.plural === plural),
      )
      if (!found) return undefined
      found.left -= 1
      return found.fault
    },
  }
}
