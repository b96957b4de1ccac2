import type { EgressBudget, EgressDestination } from '../../contracts/egress.ts'
import { passesThreshold } from '../kit/thresholds.ts'
import type { Refusal } from './refusals.ts'

type Entry = Pick<EgressDestination, 'maxSent' | 'caller'>

/** The bytes that one sandbox has sent to the hosts of each entry that limits them. All hosts of a pattern count together. */
export class SentBytes {
  readonly #report: (budget: EgressBudget) => void
  readonly #sent = new Map<string, number>()

  constructor(report: (budget: EgressBudget) => void) {
    this.#report = report
  }

  refusalOf({ maxSent, caller }: Entry): Refusal | undefined {
    if (!maxSent || (this.#sent.get(keyOf(maxSent, caller)) ?? 0) < maxSent.bytes) return undefined
    return overuse(maxSent)
  }

  /** Counts bytes that are about to be sent. Returns a refusal if they exceed the limit: none of them may be sent then. */
  add({ maxSent, caller }: Entry, bytes: number): Refusal | undefined {
    if (!maxSent) return undefined
    const { entry, bytes: limit } = maxSent
    const key = keyOf(maxSent, caller)
    const before = this.#sent.get(key) ?? 0
    const used = Math.min(before + bytes, limit)
    this.#sent.set(key, used)
    if (passesThreshold(before, used, limit)) this.#report({ kind: 'sent_bytes', host: entry, used, limit })
    return before + bytes > limit ? overuse(maxSent) : undefined
  }
}

type MaxSent = NonNullable<Entry['maxSent']>

/** A host can have one entry for AgentHost and another one. */
const keyOf = ({ entry }: MaxSent, caller: Entry['caller']) => `${caller} ${entry}`

const overuse = ({ entry, bytes }: MaxSent): Refusal => ({
  rule: 'budget',
  reason: `the sandbox may send ${bytes} bytes to ${entry}, and this would be more`,
  remedy:
    'A person can raise "maxSentMiB" of its entry in the egress file of the service, and restart the service.',
})
