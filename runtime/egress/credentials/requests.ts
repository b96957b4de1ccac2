import type { CredentialAnswer, EgressReport } from '../../../contracts/egress.ts'
import type { CredentialKey } from './values.ts'

/** Asks the service for the values of credentials, and matches its replies. */
export class CredentialRequests {
  readonly #report: (report: EgressReport) => void
  readonly #waiting = new Map<number, PromiseWithResolvers<string>>()
  #last = 0

  constructor(report: (report: EgressReport) => void) {
    this.#report = report
  }

  fetch({ runId, generation, credential }: CredentialKey): Promise<string> {
    this.#last += 1
    const id = this.#last
    const waiting = Promise.withResolvers<string>()
    this.#waiting.set(id, waiting)
    this.#report({ type: 'credential-wanted', id, runId, generation, credential })
    return waiting.promise
  }

  answer({ id, answer }: CredentialAnswer): void {
    const waiting = this.#waiting.get(id)
    this.#waiting.delete(id)
    if ('value' in answer) waiting?.resolve(answer.value)
    else waiting?.reject(new Error(answer.fault))
  }
}
