import { describe, expect, it } from 'vitest'
import { createRedactor } from '../../runtime/redaction/redactor.ts'

const SECRET = 'p@ss/w0rd+"of"=the&day?ü'
const redactor = createRedactor({ secrets: [SECRET, 'short'], pii: false })
const bytes = Buffer.from(SECRET)

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
    'in percent form with small digits',
    encodeURIComponent(SECRET).replace(/%../g, (hex) => hex.toLowerCase()),
  ],
  ['in hex', bytes.toString('hex')],
  ['in upper-case hex', bytes.toString('hex').toUpperCase()],
  ['in base64', bytes.toString('base64')],
  ['in base64url', bytes.toString('base64url')],
]

describe('a known value', () => {
  it.each(FORMS)('is hidden %s', (_name, form) => {
    const shown = redactor.text(`before ${form} after`)

    expect(shown).toContain('[REDACTED:secret]')
    expect(shown).not.toContain(form)
  })

  it.each(['', 'a', 'ab', 'abc', 'abcd'])(
    'is hidden in the base64 of a longer text that begins with %j',
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

  it('is hidden when a stream cuts it anywhere', () => {
    for (let cut = 1; cut < SECRET.length; cut++) {
      const stream = redactor.stream()

      const shown = stream.push(SECRET.slice(0, cut)) + stream.push(SECRET.slice(cut)) + stream.end()

      expect(shown).toBe('[REDACTED:secret]')
    }
  })

  it('is hidden together with one that overlaps it', () => {
    const both = createRedactor({ secrets: ['abcdefgh', 'fghijklmnop'], pii: false })

    expect(both.text('<abcdefghijklmnop>')).toBe('<[REDACTED:secret]>')
  })

  it('is hidden line by line where it has several', () => {
    const lines = createRedactor({ secrets: ['first-line-of-secret\nsecond-line-of-secret'], pii: false })

    expect(lines.text('1: first-line-of-secret\n2: second-line-of-secret')).toBe(
      '1: [REDACTED:secret]\n2: [REDACTED:secret]',
    )
  })

  it('is not looked for where it is too short to be told from ordinary text', () => {
    expect(redactor.text('a short text')).toBe('a short text')
  })
})
