import { type Detector, MAX_BEHIND, type Match } from './detector.ts'
import { markerOf } from './marker.ts'
import type { Stage } from './stage.ts'
import { createPemSwallower, type Swallower, swallowClass } from './swallow.ts'
import { CharClass, TextReader } from './text-reader.ts'
import { TriggerTable } from './trigger-table.ts'

/** Characters before a trigger that a later match may still include. */
const BEFORE_TRIGGER = new CharClass(/[A-Za-z0-9._%+'~:-]/)

/** Creates stages that find secrets by their format. The trigger table is built once and shared. */
export function createKindsStage(detectors: readonly Detector[]): () => Stage {
  const table = new TriggerTable(detectors)
  return () => new KindsStage(table)
}

class KindsStage implements Stage {
  readonly #table: TriggerTable
  readonly #reader = new TextReader()
  /** Everything before this index is decided. */
  #position = 0
  /** Everything before this index was emitted or replaced. */
  #given = 0
  #swallower: Swallower | undefined
  #output = ''

  constructor(table: TriggerTable) {
    this.#table = table
  }

  push(chunk: string): string {
    if (chunk === '') return ''
    this.#reader.text += chunk
    return this.#advance()
  }

  end(): string {
    this.#reader.isComplete = true
    return this.#advance()
  }

  get isHolding(): boolean {
    return this.#swallower !== undefined || this.#given < this.#reader.text.length
  }

  copy(): KindsStage {
    const copy = new KindsStage(this.#table)
    copy.#reader.text = this.#reader.text
    copy.#reader.isComplete = this.#reader.isComplete
    copy.#position = this.#position
    copy.#given = this.#given
    copy.#swallower = this.#swallower?.copy()
    return copy
  }

  #advance(): string {
    while (this.#step()) {
      // Each step decides at least one character.
    }
    this.#giveUpTo(this.#held())
    this.#forget()
    const output = this.#output
    this.#output = ''
    return output
  }

  /** Processes the text up to and including the next trigger. Returns false if more text is needed. */
  #step(): boolean {
    const { text, isComplete } = this.#reader
    if (this.#swallower) return this.#swallow(this.#swallower)
    if (this.#position >= text.length) return false
    const at = this.#table.next(text, this.#position, text.length)
    this.#position = at
    if (at === text.length - 1 && !this.#table.canBegin(text.charCodeAt(at))) {
      this.#position = text.length
      return false
    }
    if (at === text.length - 1 && !isComplete) return false
    const match = this.#detect(at)
    if (match === 'wait') return false
    if (match) this.#replace(match)
    else this.#position = at + 1
    return true
  }

  #detect(at: number): Match | 'wait' | undefined {
    const reader = this.#reader
    for (const detector of this.#table.detectorsAt(reader.text, at)) {
      reader.sawEnd = false
      const match = detector.detect(reader, at)
      if (reader.sawEnd) return 'wait'
      if (match && match.end > this.#given) return match
    }
    return undefined
  }

  #replace(match: Match): void {
    this.#giveUpTo(Math.max(match.start, this.#given))
    this.#output += markerOf(match.kind)
    this.#given = match.end
    this.#position = match.end
    if (match.rest) this.#swallower = swallowClass(match.rest)
    else if (match.until) this.#swallower = createPemSwallower()
  }

  #swallow(swallower: Swallower): boolean {
    const { end, isDone } = swallower.swallow(this.#reader, this.#position)
    this.#position = end
    this.#given = end
    if (isDone) this.#swallower = undefined
    return isDone
  }

  /** The index before which no later match can reach. */
  #held(): number {
    if (this.#reader.isComplete) return this.#reader.text.length
    let held = this.#position
    const earliest = Math.max(this.#given, held - MAX_BEHIND)
    while (held > earliest && BEFORE_TRIGGER.has(this.#reader.text.charCodeAt(held - 1))) held--
    return held
  }

  #giveUpTo(end: number): void {
    if (end <= this.#given) return
    this.#output += this.#reader.text.slice(this.#given, end)
    this.#given = end
  }

  /** Drops text that no detector can look back at. */
  #forget(): void {
    const cut = this.#given - MAX_BEHIND
    if (cut < CUT_AT_LEAST) return
    this.#reader.text = this.#reader.text.slice(cut)
    this.#position -= cut
    this.#given -= cut
  }
}

const CUT_AT_LEAST = 1024
