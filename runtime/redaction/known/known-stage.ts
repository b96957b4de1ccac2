import { markerOf } from '../marker.ts'
import type { Stage } from '../stage.ts'
import { formsOf } from './forms.ts'
import { NeedleSet } from './needle-set.ts'

/** Creates stages that replace known values in all their forms. Undefined if there are no values. */
export function createKnownStage(values: readonly string[]): (() => Stage) | undefined {
  const forms = formsOf(values)
  if (forms.length === 0) return undefined
  const needles = new NeedleSet(forms)
  return () => new KnownStage(needles)
}

class KnownStage implements Stage {
  readonly #needles: NeedleSet
  #text = ''
  /** No value begins before this index, but one may extend beyond it. */
  #position = 0
  #given = 0
  /** End of the current group of overlapping values; 0 outside a group. */
  #found = 0
  #isComplete = false
  #output = ''

  constructor(needles: NeedleSet) {
    this.#needles = needles
  }

  push(chunk: string): string {
    if (chunk === '') return ''
    this.#text += chunk
    return this.#advance()
  }

  end(): string {
    this.#isComplete = true
    return this.#advance()
  }

  get isHolding(): boolean {
    return this.#text !== ''
  }

  copy(): KnownStage {
    const copy = new KnownStage(this.#needles)
    copy.#text = this.#text
    copy.#position = this.#position
    copy.#found = this.#found
    copy.#isComplete = this.#isComplete
    return copy
  }

  #advance(): string {
    while (this.#step()) {
      // Each step advances by at least one character.
    }
    if (this.#found === 0) this.#giveUpTo(this.#held())
    this.#text = this.#text.slice(this.#given)
    this.#position = Math.max(0, this.#position - this.#given)
    if (this.#found > 0) this.#found -= this.#given
    this.#given = 0
    const output = this.#output
    this.#output = ''
    return output
  }

  #step(): boolean {
    const last = this.#text.length - this.#needles.window
    const at = this.#needles.nextCandidate(this.#text, this.#position)
    if (this.#found > 0 && (at >= this.#found || (at > last && this.#isComplete))) {
      this.#closeFound()
      return true
    }
    if (at > last) {
      this.#position = Math.max(this.#position, last + 1)
      return false
    }
    this.#position = at
    const end = this.#endOfLongest(at)
    if (end === 'wait') return false
    if (end > 0) this.#extend(at, end)
    this.#position = at + 1
    return true
  }

  #endOfLongest(at: number): number | 'wait' {
    let longest = 0
    for (const needle of this.#needles.needlesAt(this.#text, at)) {
      if (needle.length <= longest || !this.#needles.matches(needle, this.#text, at)) continue
      if (at + needle.length <= this.#text.length) longest = needle.length
      else if (!this.#isComplete) return 'wait'
    }
    return longest === 0 ? 0 : at + longest
  }

  #extend(at: number, end: number): void {
    if (this.#found === 0) this.#giveUpTo(at)
    this.#found = Math.max(this.#found, end)
  }

  /** Overlapping values are replaced together, because the rest of the second one would reveal its end. */
  #closeFound(): void {
    this.#output += markerOf('secret')
    this.#given = this.#found
    this.#position = Math.max(this.#position, this.#found)
    this.#found = 0
  }

  #held(): number {
    if (this.#isComplete) return this.#text.length
    const { window } = this.#needles
    const isTail = this.#position > this.#text.length - window
    return isTail ? this.#needles.openEnd(this.#text, this.#position) : this.#position
  }

  #giveUpTo(end: number): void {
    if (end <= this.#given) return
    this.#output += this.#text.slice(this.#given, end)
    this.#given = end
  }
}
