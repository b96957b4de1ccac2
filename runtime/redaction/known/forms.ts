/** Shorter values are not searched for, because they would match ordinary text. */
export const SHORTEST_VALUE = 6

/** Returns every encoded form of the known values, without duplicates, longest first. */
export function formsOf(values: readonly string[]): string[] {
  const ofAll = values
    .flatMap(valuesAndLines)
    .flatMap((value) => [...textForms(value), ...byteForms(Buffer.from(value, 'utf8'))])
  const ofWhole = values.filter((value) => value.length >= SHORTEST_VALUE).flatMap(rarerForms)
  const forms = [...ofAll, ...ofWhole].filter((form) => form.length >= SHORTEST_VALUE)
  return [...new Set(forms)].sort((a, b) => b.length - a.length)
}

/** Includes the single lines of a multi-line value, because output is often numbered or indented. */
function valuesAndLines(value: string): string[] {
  const lines = value.split(/\r?\n/).filter((line) => line.length >= LONG_LINE)
  return [value, value.trim(), ...(lines.length > 1 ? lines : [])].filter(
    (text) => text.length >= SHORTEST_VALUE,
  )
}

const LONG_LINE = 16

function textForms(value: string): string[] {
  const escaped = JSON.stringify(value).slice(1, -1)
  const percent = safely(() => encodeURIComponent(value))
  return [
    value,
    escaped,
    escaped.replaceAll('/', '\\/'),
    asciiEscaped(escaped),
    JSON.stringify(escaped).slice(1, -1),
    ...(percent === undefined ? [] : percentForms(percent)),
  ]
}

/** Form encoding writes blanks as `+`. The hex digits of an escape may be upper or lower case. */
const percentForms = (percent: string): string[] => {
  const lower = percent.replace(/%../g, (hex) => hex.toLowerCase())
  const strict = percent.replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
  return [percent, lower, strict, percent.replaceAll('%20', '+')]
}

const asciiEscaped = (text: string): string =>
  text.replace(/[\u007f-\uffff]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)

function byteForms(bytes: Buffer): string[] {
  const hex = bytes.toString('hex')
  const pairs = hex.match(/../g) ?? []
  const base64 = [0, 1, 2].map((offset) => base64Core(bytes, offset))
  return [
    hex,
    pairs.map((pair) => `%${pair}`).join(''),
    pairs.map((pair) => `\\x${pair}`).join(''),
    ...base64,
    ...base64.map((text) => text.replaceAll('+', '-').replaceAll('/', '_')),
  ]
}

/** Forms that are computed only for whole values: for each line of a long key, there would be thousands. */
function rarerForms(value: string): string[] {
  const bytes = Buffer.from(value, 'utf8')
  const wide = Buffer.from(value, 'utf16le')
  const wideBigEndian = Buffer.from(wide).swap16()
  return [
    ...unicodeEscaped(value),
    ...separatedHex(bytes),
    ...[0, 1, 2, 3, 4]
      .map((offset) => base32Core(bytes, offset))
      .flatMap((text) => [text, text.toLowerCase()]),
    // UTF-16 read as UTF-8 has a NUL after each character, which JSON escapes.
    [...value].join('\0'),
    [...value].join('\\u0000'),
    ...[wide, wideBigEndian].flatMap((encoded) => byteForms(encoded)),
  ]
}

/** Every character as an escape, such as `\u0070`. */
function unicodeEscaped(value: string): string[] {
  const codes = Array.from({ length: value.length }, (_, at) =>
    value.charCodeAt(at).toString(16).padStart(4, '0'),
  )
  return ['\\u', '\\\\u'].map((mark) => codes.map((code) => `${mark}${code}`).join(''))
}

/** `70:61:73`, `70 61 73`, `0x70, 0x61`: hex dumps, fingerprints and byte arrays. */
const HEX_SEPARATORS = [':', ' ', '-', ',', ', ', '\\x', '\\\\x', ',0x', ', 0x', ' 0x']

function separatedHex(bytes: Buffer): string[] {
  const pairs = bytes.toString('hex').match(/../g) ?? []
  return HEX_SEPARATORS.map((separator) => pairs.join(separator))
}

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'

/** The base32 characters that depend only on the value, if it begins `offset` bytes after a multiple of five. */
function base32Core(bytes: Buffer, offset: number): string {
  const padded = Buffer.concat([Buffer.alloc(offset), bytes])
  const bits = Array.from(padded, (byte) => byte.toString(2).padStart(8, '0')).join('')
  const first = Math.ceil((offset * 8) / 5)
  const count = Math.floor(bits.length / 5) - first
  return Array.from({ length: count }, (_, at) => {
    const from = (first + at) * 5
    return BASE32[Number.parseInt(bits.slice(from, from + 5), 2)]
  }).join('')
}

/**
 * The base64 characters that depend only on the value, if it begins `offset` bytes after a multiple of three.
 * Characters that share bits with the surrounding text are excluded.
 */
function base64Core(bytes: Buffer, offset: number): string {
  const padded = Buffer.concat([Buffer.alloc(offset), bytes])
  const first = Math.ceil((offset * 8) / 6)
  const last = Math.floor((padded.length * 8) / 6)
  return padded.toString('base64').slice(first, last)
}

function safely(make: () => string): string | undefined {
  try {
    return make()
  } catch (error) {
    // A lone surrogate has no percent encoding, so no program could print one.
    if (error instanceof URIError) return undefined
    throw error
  }
}
