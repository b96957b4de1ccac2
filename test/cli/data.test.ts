import { expect, test } from 'vitest'
import { whatIsLeft } from '../../cli/commands/data.ts'

test('an erasure names the date on which the vault purges the deleted credentials, if there were any', () => {
  expect(whatIsLeft({ secretsPurgedAt: '2027-02-25T10:00:00.000Z' }).at(-1)).toBe(
    'The vault keeps the deleted credentials, unreadable, and purges them on 2027-02-25.',
  )
  expect(whatIsLeft({ secretsPurgedBy: '2027-02-25T10:00:00.000Z' }).at(-1)).toBe(
    'The vault keeps the deleted credentials, unreadable, and purges them by 2027-02-25. It did not report the exact date.',
  )
  expect(whatIsLeft({}).join(' ')).not.toContain('vault')
})
