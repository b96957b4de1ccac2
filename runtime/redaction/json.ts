import { sensitiveKey } from './kinds/sensitive-keys.ts'
import { isKeyword, isPlaceholder } from './kinds/values.ts'
import { isMarker, markerOf } from './marker.ts'

/** Values nested deeper than any event or argument are replaced as a whole. */
const DEEPEST = 100

/** Redacts every string and key of a JSON value, and whole strings under a key that names a secret. */
export function redactJson(
  value: unknown,
  text: (s: string) => string,
): { value: unknown; changed: boolean } {
  const walker = new JsonWalker(text)
  return { value: walker.walk(value, undefined, 0), changed: walker.changed }
}

class JsonWalker {
  changed = false
  readonly #text: (s: string) => string

  constructor(text: (s: string) => string) {
    this.#text = text
  }

  walk(value: unknown, key: string | undefined, depth: number): unknown {
    if (typeof value === 'string') return this.#note(value, this.#string(value, key))
    if (typeof value !== 'object' || value === null) return value
    if (depth >= DEEPEST) return this.#note('', markerOf('depth'))
    if (Array.isArray(value)) return value.map((item) => this.walk(item, key, depth + 1))
    const members = Object.entries(value).map(([name, member]) => [
      this.#note(name, this.#text(name)),
      this.walk(member, name, depth + 1),
    ])
    return Object.fromEntries(members)
  }

  #string(value: string, key: string | undefined): string {
    const redacted = this.#text(value)
    const kind = key === undefined ? undefined : sensitiveKey(key, 34)
    const isOpen = value === '' || isMarker(redacted) || isPlaceholder(value) || isKeyword(value)
    return kind === undefined || isOpen ? redacted : markerOf(kind)
  }

  #note(before: string, after: string): string {
    this.changed ||= before !== after
    return after
  }
}
