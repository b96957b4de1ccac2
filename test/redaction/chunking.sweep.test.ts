import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Detector } from '../../runtime/redaction/detector.ts'
import { createRedactor, type Redactor } from '../../runtime/redaction/redactor.ts'
import { HARMLESS, PERSONAL, SECRETS } from './corpus.ts'

const KNOWN = ['correct-horse-battery', 'horse-battery-staple', 'two\nlines of a secret that is long']
const redactor = createRedactor({ secrets: KNOWN, pii: true })

function inPieces(text: string, cuts: readonly number[], by: Redactor = redactor): string {
  const stream = by.stream()
  let out = ''
  let from = 0
  for (const cut of [...cuts].sort((a, b) => a - b)) {
    out += stream.push(text.slice(from, cut))
    from = cut
  }
  return out + stream.push(text.slice(from)) + stream.end()
}

const pieces = [
  ...SECRETS.map(([text]) => text),
  ...PERSONAL.map(([text]) => text),
  ...HARMLESS,
  ...KNOWN,
  Buffer.from(KNOWN[0] ?? '').toString('base64'),
  encodeURIComponent(KNOWN[2] ?? ''),
  'correct-horse-battery-staple',
  'correct-horse-',
]
const filler = fc.string({ unit: fc.constantFrom(...' \n=:"\'\\-@.aAgeyBp1/'), maxLength: 12 })
const corpus = fc
  .array(fc.oneof(fc.constantFrom(...pieces), filler), { minLength: 1, maxLength: 8 })
  .map((parts) => parts.join(''))

describe('a redacted stream', () => {
  it('gives the same result for every chunking', () => {
    fc.assert(
      fc.property(corpus, fc.array(fc.nat(2000), { maxLength: 12 }), (text, cuts) => {
        const within = cuts.map((cut) => cut % (text.length + 1))

        expect(inPieces(text, within)).toBe(redactor.text(text))
      }),
      { numRuns: 2000 },
    )
  })

  it.each(pieces)('gives the same result for every single cut and character by character: %j', (text) => {
    const around = `x ${text} y`
    const whole = redactor.text(around)

    for (let cut = 0; cut <= around.length; cut++) expect(inPieces(around, [cut])).toBe(whole)
    expect(
      inPieces(
        around,
        Array.from(around, (_char, index) => index),
      ),
    ).toBe(whole)
  })

  it('continues identically in a copy, and independently of it', () => {
    fc.assert(
      fc.property(corpus, fc.array(fc.nat(2000), { maxLength: 6 }), (text, cuts) => {
        const bounds = [...new Set([...cuts.map((cut) => cut % (text.length + 1)), text.length])]
        let stream = redactor.stream()
        let out = ''
        let from = 0
        for (const bound of bounds.sort((a, b) => a - b)) {
          out += stream.push(text.slice(from, bound))
          from = bound
          const former = stream
          stream = former.copy()
          former.push('-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC')
          former.end()
        }

        expect(out + stream.end()).toBe(redactor.text(text))
      }),
      { numRuns: 1000 },
    )
  })

  it('reports whether it holds text back', () => {
    const stream = redactor.stream()
    const holds = (text: string) => {
      stream.push(text)
      return stream.isHolding
    }

    expect([
      holds('whole line\n'),
      holds('correct-horse-'),
      holds('battery is what they say\n'),
      holds('password'),
      holds(' is a word\n'),
      holds('-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n'),
      holds(
        '-----END PRIVATE KEY-----\n and on we go, a line as long as any mark could be, it says so here\n',
      ),
    ]).toEqual([false, true, false, true, false, true, false])
  })

  it('stays closed in a copy after a detector failed', () => {
    const failing = {
      triggers: [[/!/, /!/]],
      detect: () => {
        throw new Error('broken')
      },
    } satisfies Detector
    const stream = createRedactor({ secrets: [], pii: false, detectors: [failing] }).stream()
    stream.push('before !! after\n')

    expect(stream.isHolding).toBe(true)
    expect(stream.copy().push('a secret\n')).toBe('')
  })

  it('emits complete lines without waiting for more', () => {
    const stream = redactor.stream()

    expect(stream.push('12 tests passed\n')).toBe('12 tests passed\n')
    expect(stream.push('see ')).toBe('see ')
    expect(stream.end()).toBe('')
  })

  it.each([
    'a',
    '1.',
    ':',
    '@',
    '-',
    '"',
    'eyJ',
    'password ',
    '-----BEGIN ',
    'correct-horse-',
    'b:c@',
    'x://',
  ])('holds back a bounded part of an endless %j', (piece) => {
    const stream = redactor.stream()
    let given = 0

    for (let i = 0; i < 3000; i++) given += stream.push(piece).length

    expect(piece.length * 3000 - given).toBeLessThan(1200)
  })
})
