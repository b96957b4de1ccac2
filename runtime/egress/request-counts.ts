import type { EgressBudget } from '../../contracts/egress.ts'
import { passesThreshold } from '../kit/thresholds.ts'
import type { Question } from './decide.ts'
import type { Refusal } from './refusals.ts'

/** Names that are counted one by one. An entry with a wildcard has names without end. */
const MAX_HOSTS = 4096
const OTHERS = 'other hosts'

/**
 * The requests of one sandbox to each host. A connection whose requests the proxy does not read counts as one request, and
 * requests to the model have budgets of the run.
 */
export class RequestCounts {
  readonly #limit: number
  readonly #report: (budget: EgressBudget) => void
  readonly #counts = new Map<string, number>()

  constructor(limit: number, report: (budget: EgressBudget) => void) {
    this.#limit = limit
    this.#report = report
  }

  refusalOf(question: Question): Refusal | undefined {
    const key = this.#keyOf(question)
    if ((this.#counts.get(key) ?? 0) < this.#limit) return undefined
    const reason = `the sandbox has sent ${this.#limit} requests to ${key}, its limit`
    return { rule: 'budget', reason, remedy: 'Start a new run.' }
  }

  add(question: Question): void {
    if (question.protocol !== 'tls' && !question.request) return
    const host = this.#keyOf(question)
    const before = this.#counts.get(host) ?? 0
    const used = before + 1
    this.#counts.set(host, used)
    if (passesThreshold(before, used, this.#limit))
      this.#report({ kind: 'requests', host: host.slice(0, 300), used, limit: this.#limit })
  }

  #keyOf({ host: { name } }: Question): string {
    return this.#counts.has(name) || this.#counts.size < MAX_HOSTS ? name : OTHERS
  }
}
