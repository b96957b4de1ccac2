import { describe, expect, it } from 'vitest'
import { createRedactor } from '../../runtime/redaction/redactor.ts'
import { HARMLESS, PERSONAL, SECRETS } from './corpus.ts'

const plain = createRedactor({ secrets: [], pii: false })
const personal = createRedactor({ secrets: [], pii: true })

describe('secrets recognised by their format', () => {
  it.each(SECRETS)('redacts the secret in %j', (text, secret, kind) => {
    expect(text).toContain(secret)

    const shown = plain.text(text)

    expect(shown).not.toContain(secret)
    expect(shown).toContain(`[REDACTED:${kind}]`)
  })

  it('keeps the text around a secret', () => {
    expect(plain.text('a postgres://app:pw12@db:5432/x b')).toBe(
      'a postgres://app:[REDACTED:url-password]@db:5432/x b',
    )
  })

  it('redacts a value of any length', () => {
    const long = 'x1'.repeat(50_000)

    expect(plain.text(`password=${long} end`)).toBe('password=[REDACTED:password] end')
    expect(plain.text(`{"token":"${long}"}`)).toBe('{"token":"[REDACTED:key]"}')
  })

  it('does not change text that is already redacted', () => {
    for (const [text] of [...SECRETS, ...PERSONAL]) {
      const once = personal.text(text)

      expect(personal.text(once)).toBe(once)
    }
  })
})

describe('personal data', () => {
  it.each(PERSONAL)('is redacted in %j only on request', (text, secret, kind) => {
    expect(plain.text(text)).toBe(text)
    expect(personal.text(text)).not.toContain(secret)
    expect(personal.text(text)).toContain(`[REDACTED:${kind}]`)
  })
})

describe('ordinary text', () => {
  it.each(HARMLESS)('is unchanged: %j', (text) => {
    expect(personal.text(text)).toBe(text)
  })
})
