import { expect, it } from 'vitest'
import { createGrowingRedactor } from '../../runtime/redaction/growing-redactor.ts'

it('redacts learned values, also those learned earlier', () => {
  const redactor = createGrowingRedactor({ pii: false })
  const text = 'first-value and second-value'

  const before = redactor.text(text)
  redactor.learn('first-value')
  const once = redactor.text(text)
  redactor.learn('second-value')
  const twice = redactor.json({ text })

  expect(before).toBe(text)
  expect(once).toContain('second-value')
  expect(once).not.toContain('first-value')
  expect(JSON.stringify(twice)).not.toMatch(/first-value|second-value/)
})

it('redacts learned values in every stream opened afterwards', () => {
  const redactor = createGrowingRedactor({ pii: false })
  redactor.learn('first-value')
  const stream = redactor.stream()

  const said = stream.push('it is first-') + stream.push('value, then') + stream.end()

  expect(said).not.toContain('first-value')
  expect(said).toContain('then')
})

it('keeps a bounded number of values, the newest ones', () => {
  const redactor = createGrowingRedactor({ pii: false })

  for (let i = 0; i < 100; i++) redactor.learn(`value-number-${i}`)

  expect(redactor.text('value-number-99')).not.toContain('value-number-99')
})

it('redacts only learned values with known()', () => {
  const redactor = createGrowingRedactor({ pii: true })
  redactor.learn('first-value')
  const text = 'first-value, password=hunter2, ada@example.test'

  expect(redactor.known(text)).toMatch(/^\[REDACTED:secret\], password=hunter2, ada@example\.test$/)
  expect(redactor.text(text)).not.toContain('hunter2')
})
