/** Characters that a shell expands when unquoted, and the private-use characters that replace them when quoted. */
const EXPANDED = '{,}*?[~'
const QUOTED = '\uE010\uE011\uE012\uE013\uE014\uE015\uE016'

/** Marks text as quoted: its braces and wildcards are literal. */
export const protect = (text: string): string =>
  /[{,}*?[~]/.test(text)
    ? text.replace(/[{,}*?[~]/g, (char) => QUOTED[EXPANDED.indexOf(char)] as string)
    : text

/** Marks the value of an unquoted variable: wildcards still expand, braces do not. */
export const protectBraces = (text: string): string =>
  /[{,}]/.test(text) ? text.replace(/[{,}]/g, protect) : text

/** Restores the characters that `protect` replaced. */
export const unprotect = (text: string): string =>
  /[\uE010-\uE016]/.test(text)
    ? text.replace(/[\uE010-\uE016]/g, (char) => EXPANDED[QUOTED.indexOf(char)] as string)
    : text

export const hasWildcard = (text: string): boolean => /[*?]|\[[^\]]/.test(text)

/** Removes unquoted backslashes. A backslash before a line feed joins the lines. */
export const unescapeWord = (text: string): string =>
  text.includes('\\') ? text.replace(/\\(\n?)([^\n]?)/g, (_all, _feed, char: string) => protect(char)) : text

/** Removes the backslashes that act as escapes inside double quotes. */
export const unescapeDoubleQuoted = (text: string): string =>
  text.includes('\\')
    ? text.replace(/\\([$`"\\])|\\\n/g, (_all, char: string | undefined) => char ?? '')
    : text

/** Removes the backslashes that act as escapes in an expanded here-document. */
export const unescapeDocument = (text: string): string =>
  text.replace(/\\([$`\\])|\\\n/g, (_all, char: string | undefined) => char ?? '')

const LETTERS: Readonly<Record<string, string>> = {
  n: '\n',
  t: '\t',
  r: '\r',
  a: '\x07',
  b: '\b',
  e: '\x1b',
  E: '\x1b',
  f: '\f',
  v: '\v',
}

/** Decodes `$'…'`. A NUL ends the text. */
export const decodeAnsiC = (body: string): string => decodeEscapes(body).split('\0', 1)[0] ?? ''

export const decodeEscapes = (text: string): string => text.replace(ANSI_C_ESCAPE, decodeEscape)

const ANSI_C_ESCAPE = /\\(?:x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c[\s\S]|[\s\S])/g

function decodeEscape(sequence: string): string {
  const digits = sequence.slice(2)
  if (/^\\[xuU]./.test(sequence)) return fromCode(Number.parseInt(digits, 16))
  if (/^\\[0-7]/.test(sequence)) return fromCode(Number.parseInt(sequence.slice(1), 8) & 0xff)
  if (/^\\c./s.test(sequence)) return fromCode(digits.charCodeAt(0) & 0x1f)
  return LETTERS[sequence[1] ?? ''] ?? sequence.slice(1)
}

const fromCode = (code: number) => (code <= 0x10ffff ? String.fromCodePoint(code) : '')

const MAX_BRACES = 64

/** Expands `a{b,c}` to `ab ac`, innermost braces first, up to `MAX_BRACES` words. */
export function expandBraces(text: string): string[] {
  let words = [text]
  for (let round = 0; round < 4; round++) {
    const next = words.flatMap((word) => {
      const match = /^(.*?)\{([^{}]*,[^{}]*)\}(.*)$/s.exec(word)
      if (!match) return [word]
      const [, before = '', choices = '', after = ''] = match
      return choices.split(',').map((choice) => `${before}${choice}${after}`)
    })
    if (next.length > MAX_BRACES) return [...words, ...next.slice(0, MAX_BRACES)]
    if (next.length === words.length) return next
    words = next
  }
  return words
}

/**
 * Returns the commands in backquotes of a text that the grammar did not split. Undefined if a backquote is not
 * closed.
 */
export function backquotedScripts(text: string): string[] | undefined {
  const scripts: string[] = []
  const rest = text.replace(/\\[\s\S]|`((?:[^`\\]|\\[\s\S])*)`/g, (_all, script: string | undefined) => {
    if (script !== undefined) scripts.push(unescapeBackquoted(script))
    return ''
  })
  return rest.includes('`') ? undefined : scripts
}

/** Removes the backslashes that act as escapes inside backquotes. */
export const unescapeBackquoted = (script: string): string => script.replace(/\\([`$\\])/g, '$1')
