import { describe, expect, it } from 'vitest'
import type { Detector } from '../../runtime/redaction/detector.ts'
import { createRedactor } from '../../runtime/redaction/redactor.ts'
import { processorMs } from '../helpers/processor-time.ts'

const redactor = createRedactor({ secrets: ['known-secret-value'], pii: true })

describe('json', () => {
  it('redacts every string and says that it changed something', () => {
    const value = { command: 'echo known-secret-value', list: [1, null, 'jane@contoso.com'], ok: true }

    expect(redactor.json(value)).toEqual({
      value: { command: 'echo [REDACTED:secret]', list: [1, null, '[REDACTED:email]'], ok: true },
      changed: true,
    })
  })

  it('leaves a value without secrets as it is and says so', () => {
    const value = { path: 'src/app.ts', lines: [1, 2], nested: { none: null } }

    expect(redactor.json(value)).toEqual({ value, changed: false })
  })

  it('redacts what a key names a secret, and keys that hold one', () => {
    const value = { password: 'plain', 'known-secret-value': 1 }

    expect(redactor.json(value).value).toEqual({ password: '[REDACTED:password]', '[REDACTED:secret]': 1 })
  })

  it('keeps a key that would change an object', () => {
    const value = JSON.parse('{"__proto__": "known-secret-value"}') as object

    expect(JSON.stringify(redactor.json(value).value)).toBe('{"__proto__":"[REDACTED:secret]"}')
  })

  it('cuts a value that is nested too deeply', () => {
    let deep: unknown = 'known-secret-value'
    for (let i = 0; i < 5000; i++) deep = [deep]

    expect(JSON.stringify(redactor.json(deep).value)).toContain('[REDACTED:depth]')
  })
})

describe('a detector that fails', () => {
  const failing: Detector = {
    triggers: [[/!/, /!/]],
    detect: () => {
      throw new Error('broken')
    },
  }
  const broken = createRedactor({ secrets: [], pii: false, detectors: [failing] })

  it('closes the stream: the rest is swallowed, not passed', () => {
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

/** What is shorter says nothing: a collection of garbage takes as long. */
const LEAST_MS = 50

describe('time', () => {
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

  it.each(hostile)('grows in proportion to the length of %j again and again', (piece) => {
    const [short, long] = [250_000, 1_000_000].map((length) => filled(piece, length))

    const shortMs = processorMs(() => redactor.text(short ?? ''))
    const longMs = processorMs(() => redactor.text(long ?? ''))

    // Four times the text; its square would take sixteen times as long.
    expect(longMs).toBeLessThan(8 * Math.max(shortMs, LEAST_MS))
  })
})
