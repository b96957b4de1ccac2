/** Values shorter than this are not looked for: they would be found in ordinary text. */
export const SHORTEST_VALUE = 6

/** Every way in which the known values may be written down, each once, longest first. */
export function formsOf(values: readonly string[]): string[] {
  const ofAll = values
    .flatMap(valuesAndLines)
    .flatMap((value) => [...textForms(value), ...byteForms(Buffer.from(value, 'utf8'))])
  const ofWhole = values.filter((value) => value.length >= SHORTEST_VALUE).flatMap(rarerForms)
  const forms = [...ofAll, ...ofWhole].filter((form) => form.length >= SHORTEST_VALUE)
  return [...new Set(forms)].sort((a, b) => b.length - a.length)
}

/** The lines of a value of several lines count too: output is often numbered or indented. */
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

/** Form encoding writes blanks as `+`; the digits of an escape may be of either case. */
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

/** Forms of whole values only: of each line of a long key they would be thousands. */
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
    // Read as UTF-8, every second character is a NUL; JSON escapes it.
    [...value].join('\0'),
    [...value].join('\\u0000'),
    ...[wide, wideBigEndian].flatMap((encoded) => byteForms(encoded)),
  ]
}

/** Every character as an escape, as `\u0070`. */
function unicodeEscaped(value: string): string[] {
  const codes = Array.from({ length: value.length }, (_, at) =>
    value.charCodeAt(at).toString(16).padStart(4, '0'),
  )
  return ['\\u', '\\\\u'].map((mark) => codes.map((code) => `${mark}${code}`).join(''))
}

/** `70:61:73`, `70 61 73`, `0x70, 0x61`: as dumps, fingerprints and arrays of bytes are printed. */
const HEX_SEPARATORS = [':', ' ', '-', ',', ', ', '\\x', '\\\\x', ',0x', ', 0x', ' 0x']

function separatedHex(bytes: Buffer): string[] {
  const pairs = bytes.toString('hex').match(/../g) ?? []
  return HEX_SEPARATORS.map((separator) => pairs.join(separator))
}

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'

/** The characters of a base32 text that only the value decides; it begins `offset` bytes after a multiple of five. */
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
 * The characters of a base64 text that only the value decides, where it begins `offset` bytes after a multiple of
 * three: those that share bits with what is around it are left out.
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
    // A lone surrogate has no percent form; nothing could write it so either.
    if (error instanceof URIError) return undefined
    throw error
  }
}
