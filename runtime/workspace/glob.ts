import { RE2JS } from 're2js'
import { FileFault, faultFrom } from './file-fault.ts'

/** Returns whether the pattern matches a path relative to the root. */
export type PathMatcher = (path: string) => boolean

const MAX_ALTERNATIVES = 64

/**
 * Compiles a glob: `*` and `?` within a name, `**` across folders, `[...]`, `{a,b}`, and `\` to escape a
 * character. A pattern without a slash matches the last name in any folder. Matching takes linear time; in a
 * backtracking engine, a pattern such as `*a*a*a*a*b` would block the process.
 */
export function compileGlob(pattern: string): PathMatcher {
  const relative = pattern.replace(/^(?:\.\/)+/, '')
  const expression = new GlobTranslator(relative).translate()
  const anywhere = relative.includes('/') ? '' : '(?:.*/)?'
  try {
    const compiled = RE2JS.compile(`^${anywhere}${expression}$`, RE2JS.DOTALL)
    return (path) => compiled.test(path)
  } catch (error) {
    throw faultFrom(error, 'invalid_pattern', `the glob ${JSON.stringify(pattern)} is malformed`)
  }
}

class GlobTranslator {
  readonly #pattern: string
  #at = 0
  #braces = 0
  #alternatives = 0

  constructor(pattern: string) {
    this.#pattern = pattern
  }

  translate(): string {
    let expression = ''
    while (this.#at < this.#pattern.length) expression += this.#next()
    if (this.#braces === 0) return expression
    throw new FileFault('invalid_pattern', 'the glob has an open "{"')
  }

  #next(): string {
    const character = this.#pattern[this.#at] ?? ''
    if (character === '*') return this.#stars()
    if (character === '[') return this.#set()
    this.#at++
    if (character === '?') return '[^/]'
    if (character === '\\') return RE2JS.quote(this.#pattern[this.#at++] ?? '\\')
    return this.#brace(character) ?? RE2JS.quote(character)
  }

  /** `**` matches any number of folders if it is a whole segment; otherwise it means `*`. */
  #stars(): string {
    const start = this.#at
    while (this.#pattern[this.#at] === '*') this.#at++
    const opens = start === 0 || this.#pattern[start - 1] === '/'
    const closes = this.#at === this.#pattern.length || this.#pattern[this.#at] === '/'
    if (this.#at - start < 2 || !opens || !closes) return '[^/]*'
    if (this.#at === this.#pattern.length) return '.*'
    this.#at++
    return '(?:[^/]+/)*'
  }

  #set(): string {
    const close = this.#pattern.indexOf(']', this.#at + 2)
    if (close < 0) {
      this.#at++
      return '\\['
    }
    const members = this.#pattern.slice(this.#at + 1, close)
    this.#at = close + 1
    const negated = /^[!^]/.test(members)
    const plain = (negated ? members.slice(1) : members).replace(/[\\[\]^&]/g, '\\$&')
    return negated ? `[^/${plain}]` : `[${plain}]`
  }

  #brace(character: string): string | undefined {
    if (character === '{') {
      this.#braces++
      return '(?:'
    }
    if (this.#braces === 0) return undefined
    if (character === '}') {
      this.#braces--
      return ')'
    }
    if (character !== ',') return undefined
    if (++this.#alternatives > MAX_ALTERNATIVES) {
      throw new FileFault('invalid_pattern', `the glob has more than ${MAX_ALTERNATIVES} alternatives`)
    }
    return '|'
  }
}
