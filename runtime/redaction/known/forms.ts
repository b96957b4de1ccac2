/** Values shorter than this are not looked for: they would be found in ordinary text. */
export const SHORTEST_VALUE = 6

/** Every way in which the known values may be written down, each once, longest first. */
export function formsOf(values: readonly string[]): string[] {
  const forms = new Set<string>()
  for (const value of values.flatMap(valuesAndLines)) {
    for (const form of [...textForms(value), ...byteForms(Buffer.from(value, 'utf8'))]) {
      if (form.length >= SHORTEST_VALUE) forms.add(form)
    }
  }
  return [...forms].sort((a, b) => b.length - a.length)
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
    hex.toUpperCase(),
    pairs.map((pair) => `%${pair}`).join(''),
    pairs.map((pair) => `%${pair.toUpperCase()}`).join(''),
    pairs.map((pair) => `\\x${pair}`).join(''),
    ...base64,
    ...base64.map((text) => text.replaceAll('+', '-').replaceAll('/', '_')),
  ]
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
