import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { INTENT_MAX_CHARACTERS } from '../../contracts/tools.ts'
import { cleanIntent } from '../../runtime/tools/report-tools.ts'

describe('an intent', () => {
  it('loses terminal control characters and text direction marks', () => {
    expect(cleanIntent('Run\u001b[31m the\r\ntests\u0000\u202e now\u200b')).toBe('Run [31m the tests now')
  })

  it('has no control characters and a bounded length, for any input', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 5000 }), (intent) => {
        const clean = cleanIntent(intent)
        expect(clean).not.toMatch(/[\p{Cc}\p{Cf}]/u)
        expect(Array.from(clean).length).toBeLessThanOrEqual(INTENT_MAX_CHARACTERS)
      }),
    )
  })

  it('is cut between characters, never within one', () => {
    const clean = cleanIntent('\u{1F99A}'.repeat(3000))

    expect(Array.from(clean)).toHaveLength(INTENT_MAX_CHARACTERS)
    expect(clean.isWellFormed()).toBe(true)
  })
})
