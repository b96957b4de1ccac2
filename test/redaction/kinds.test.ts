import { describe, expect, it } from 'vitest'
import { createRedactor } from '../../runtime/redaction/redactor.ts'
import { HARMLESS, PERSONAL, SECRETS } from './corpus.ts'

const plain = createRedactor({ secrets: [], pii: false })
const personal = createRedactor({ secrets: [], pii: true })

describe('secrets by their form', () => {
  it.each(SECRETS)('hides the secret in %j', (text, secret, kind) => {
    expect(text).toContain(secret)

    const shown = plain.text(text)

    expect(shown).not.toContain(secret)
    expect(shown).toContain(`[REDACTED:${kind}]`)
  })

  it('keeps what is around a secret', () => {
    expect(plain.text('a postgres://app:pw12@db:5432/x b')).toBe(
      'a postgres://app:[REDACTED:url-password]@db:5432/x b',
    )
  })

  it('hides a value however long it is', () => {
    const long = 'x1'.repeat(50_000)

    expect(plain.text(`password=${long} end`)).toBe('password=[REDACTED:password] end')
    expect(plain.text(`{"token":"${long}"}`)).toBe('{"token":"[REDACTED:key]"}')
  })

  it('leaves what was redacted before as it is', () => {
    for (const [text] of [...SECRETS, ...PERSONAL]) {
      const once = personal.text(text)

      expect(personal.text(once)).toBe(once)
    }
  })
})

describe('personal data', () => {
  it.each(PERSONAL)('hides it in %j only where asked to', (text, secret, kind) => {
    expect(plain.text(text)).toBe(text)
    expect(personal.text(text)).not.toContain(secret)
    expect(personal.text(text)).toContain(`[REDACTED:${kind}]`)
  })
})

describe('ordinary text', () => {
  it.each(HARMLESS)('comes out as it went in: %j', (text) => {
    expect(personal.text(text)).toBe(text)
  })
})
