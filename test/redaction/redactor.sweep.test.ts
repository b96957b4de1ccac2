import { describe, expect, it } from 'vitest'
import type { Detector } from '../../runtime/redaction/detector.ts'
import { createRedactor } from '../../runtime/redaction/redactor.ts'
import { processorMs } from '../helpers/processor-time.ts'

const redactor = createRedactor({ secrets: ['known-secret-value'], pii: true })

describe('json', () => {
  it('redacts every string and reports the change', () => {
    const value = { command: 'echo known-secret-value', list: [1, null, 'jane@contoso.com'], ok: true }

    expect(redactor.json(value)).toEqual({
      value: { command: 'echo [REDACTED:secret]', list: [1, null, '[REDACTED:email]'], ok: true },
      changed: true,
    })
  })

  it('returns a value without secrets unchanged and reports it', () => {
    const value = { path: 'src/app.ts', lines: [1, 2], nested: { none: null } }

    expect(redactor.json(value)).toEqual({ value, changed: false })
  })

  it('redacts values under keys that name secrets, and keys that contain one', () => {
    const value = { password: 'plain', 'known-secret-value': 1 }

    expect(redactor.json(value).value).toEqual({ password: '[REDACTED:password]', '[REDACTED:secret]': 1 })
  })

  it('keeps a key that would change an object', () => {
    const value = JSON.parse('{"__proto__": "known-secret-value"}') as object

    expect(JSON.stringify(redactor.json(value).value)).toBe('{"__proto__":"[REDACTED:secret]"}')
  })

  it('replaces a value that is nested too deeply', () => {
    let deep: unknown = 'known-secret-value'
    for (let i = 0; i < 5000; i++) deep = [deep]

    expect(JSON.stringify(redactor.json(deep).value)).toContain('[REDACTED:depth]')
  })
})

describe('a detector that throws', () => {
  const failing: Detector = {
    triggers: [[/!/, /!/]],
    detect: () => {
      throw new Error('broken')
    },
  }
  const broken = createRedactor({ secrets: [], pii: false, detectors: [failing] })

  it('closes the stream: the rest is dropped, not emitted', () => {
    const stream = broken.stream()

    expect(stream.push('before\n')).toBe('before\n')
    expect(stream.push('x!! ghp_secret\n')).toBe('[REDACTED:failed]')
    expect(stream.push('after')).toBe('')
    expect(stream.end()).toBe('')
  })

  it('does not close other streams', () => {
    expect(broken.text('a!!')).toContain('[REDACTED:failed]')
    expect(broken.text('fine')).toBe('fine')
  })
})

/** Shorter times are not meaningful: garbage collection takes as long. */
const LEAST_MS = 50

describe('run time', () => {
  const hostile = [
    'a',
    'a@',
    '1.',
    ':',
    'eyJa.',
    '-----BEGIN PRIVATE KEY-----',
    'password=',
    'x://a:',
    '"',
    '-',
    'known-secret-valu',
    'token: "\\',
    '@a.',
    '::1:',
    'bearer ',
    'curl -u a:',
    'datadog=a1',
    '<token>a1',
    'name: token\n value: ',
    'Author: a <a@a.aa',
    'glpat-a',
    '\\u0063',
  ]

  const filled = (piece: string, length: number) => piece.repeat(Math.ceil(length / piece.length))

  it.each(hostile)('grows linearly for %j repeated', (piece) => {
    const [short, long] = [250_000, 1_000_000].map((length) => filled(piece, length))

    const shortMs = processorMs(() => redactor.text(short ?? ''))
    const longMs = processorMs(() => redactor.text(long ?? ''))

    // The text is four times as long. Quadratic run time would be sixteen times as long.
    expect(longMs).toBeLessThan(8 * Math.max(shortMs, LEAST_MS))
  })
})
