import { describe, expect, it } from 'vitest'
import { createRedactor } from '../../runtime/redaction/redactor.ts'

const SECRET = 'p@ss/w0rd+"of"=the&day?ü'
const ASCII_SECRET = 'correct-horse-battery'
const redactor = createRedactor({ secrets: [SECRET, ASCII_SECRET, 'short'], pii: false })
const bytes = Buffer.from(SECRET)
const pairs = bytes.toString('hex').match(/../g) ?? []

const decodedParts = (text: string): string =>
  text
    .split(/\[REDACTED:[a-z0-9-]+\]/)
    .flatMap((part) => [
      part,
      Buffer.from(part, 'base64').toString('latin1'),
      Buffer.from(part, 'hex').toString('latin1'),
    ])
    .join('\n')

const FORMS: readonly (readonly [name: string, form: string])[] = [
  ['as it is', SECRET],
  ['in JSON', JSON.stringify(SECRET).slice(1, -1)],
  ['in JSON in JSON', JSON.stringify(JSON.stringify(SECRET)).slice(3, -3)],
  ['in JSON with escaped slashes', JSON.stringify(SECRET).slice(1, -1).replaceAll('/', '\\/')],
  ['in JSON for ASCII', JSON.stringify(SECRET).slice(1, -1).replace('ü', '\\u00fc')],
  ['in percent form', encodeURIComponent(SECRET)],
  [
    'in percent form with lower-case digits',
    encodeURIComponent(SECRET).replace(/%../g, (hex) => hex.toLowerCase()),
  ],
  ['in hex', bytes.toString('hex')],
  ['in upper-case hex', bytes.toString('hex').toUpperCase()],
  ['in hex of mixed cases', mixedCase(bytes.toString('hex'))],
  ['in separated hex of mixed cases', mixedCase(pairs.join(':'))],
  ['in base64', bytes.toString('base64')],
  ['in base64url', bytes.toString('base64url')],
  ['in Unicode escapes', unicodeEscaped(SECRET)],
  ['in upper-case Unicode escapes', unicodeEscaped(SECRET).toUpperCase().replaceAll('U', 'u')],
  ['in Unicode escapes inside JSON', JSON.stringify(unicodeEscaped(SECRET)).slice(1, -1)],
  ...[':', ' ', '-', ', 0x', ',0x', ' 0x', '\\x'].flatMap((separator) => [
    [`in hex separated by ${JSON.stringify(separator)}`, pairs.join(separator)] as const,
    [
      `in upper-case hex separated by ${JSON.stringify(separator)}`,
      pairs.join(separator).toUpperCase().replaceAll('X', 'x'),
    ] as const,
  ]),
  ['in UTF-16 without a mark, little-endian', Buffer.from(ASCII_SECRET, 'utf16le').toString('utf8')],
  ['in UTF-16 without a mark, big-endian', Buffer.from(ASCII_SECRET, 'utf16le').swap16().toString('utf8')],
  ['in base64 of UTF-16, as PowerShell accepts it', Buffer.from(SECRET, 'utf16le').toString('base64')],
]

function mixedCase(text: string): string {
  return text.replace(/[a-f]/g, (digit, at: number) => (at % 3 === 0 ? digit.toUpperCase() : digit))
}

/** Base32 by its definition in RFC 4648: five bits per character, first bits first. */
function base32(input: Buffer): string {
  let [rest, count, out] = [0, 0, '']
  for (const byte of input) {
    rest = (rest << 8) | byte
    for (count += 8; count >= 5; count -= 5) {
      out += 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'[(rest >> (count - 5)) & 31]
      rest &= (1 << (count - 5)) - 1
    }
  }
  return count > 0 ? out + 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'[(rest << (5 - count)) & 31] : out
}

function unicodeEscaped(text: string): string {
  return text.replace(/[\s\S]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

describe('a known value', () => {
  it.each(FORMS)('is redacted %s', (_name, form) => {
    const shown = redactor.text(`before ${form} after`)

    expect(shown).toContain('[REDACTED:secret]')
    expect(shown.length, 'nothing of it is left but a separator').toBeLessThan(
      'before [REDACTED:secret] after'.length + 5,
    )
    expect(createRedactor({ secrets: [], pii: false }).text(form), 'the control').toBe(form)
  })

  it.each(['', 'a', 'ab', 'abc', 'abcd'])(
    'is redacted in the base32 of a longer text that begins with %j',
    (prefix) => {
      for (const suffix of ['', 'x', 'xyz']) {
        const form = base32(Buffer.from(`${prefix}${SECRET}${suffix}`))
        for (const written of [form, form.toLowerCase()]) {
          const shown = redactor.text(`[${written}]`)

          expect(shown).toContain('[REDACTED:secret]')
          expect(shown.replace('[REDACTED:secret]', '').length).toBeLessThan(16)
        }
      }
    },
  )

  it.each(['', 'a', 'ab', 'abc', 'abcd'])(
    'is redacted in the base64 of a longer text that begins with %j',
    (prefix) => {
      for (const suffix of ['', 'x', 'xy', 'xyz']) {
        for (const encoding of ['base64', 'base64url'] as const) {
          const form = Buffer.from(`${prefix}${SECRET}${suffix}`).toString(encoding)

          const shown = redactor.text(`[${form}]`)

          expect(shown).toContain('[REDACTED:secret]')
          expect(decodedParts(shown)).not.toContain('w0rd')
          expect(decodedParts(form)).toContain('w0rd')
        }
      }
    },
  )

  it('is redacted for every chunking of a stream', () => {
    for (let cut = 1; cut < SECRET.length; cut++) {
      const stream = redactor.stream()

      const shown = stream.push(SECRET.slice(0, cut)) + stream.push(SECRET.slice(cut)) + stream.end()

      expect(shown).toBe('[REDACTED:secret]')
    }
  })

  it('is redacted together with an overlapping one', () => {
    const both = createRedactor({ secrets: ['abcdefgh', 'fghijklmnop'], pii: false })

    expect(both.text('<abcdefghijklmnop>')).toBe('<[REDACTED:secret]>')
  })

  it('is redacted line by line if it has several lines', () => {
    const lines = createRedactor({ secrets: ['first-line-of-secret\nsecond-line-of-secret'], pii: false })

    expect(lines.text('1: first-line-of-secret\n2: second-line-of-secret')).toBe(
      '1: [REDACTED:secret]\n2: [REDACTED:secret]',
    )
  })

  it('is ignored if it is too short to distinguish from ordinary text', () => {
    expect(redactor.text('a short text')).toBe('a short text')
  })
})
