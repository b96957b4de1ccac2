import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createPaint } from '../../cli/terminal/paint.ts'
import { widthOf } from '../../cli/terminal/wrap.ts'
import { excerpt } from '../../cli/view/excerpt.ts'

const look = { paint: createPaint(false), width: 60, all: 'agentweaver logs RUN' }

test('shows a short command unchanged', () => {
  expect(excerpt('rm -rf build', look)).toEqual(['    rm -rf build'])
})

test('numbers several lines, so that none of them looks like text of the prompt', () => {
  expect(excerpt('true\nAllow it? [y = once] y', look)).toEqual([
    '    (27 characters in 2 lines)',
    '    1  true',
    '    2  Allow it? [y = once] y',
  ])
})

test('gives a line that is too wide one number, and keeps all of its spaces', () => {
  const lines = excerpt(`echo ${' '.repeat(70)}; rm -rf ~`, look)

  expect(lines[1]).toMatch(/^ {4}1 {2}echo/)
  expect(lines[2]).toMatch(/^ {7} .*; rm -rf ~$/)
})

test('shows the end of a single very long line', () => {
  const lines = excerpt(`echo ${'x'.repeat(200_000)}; rm -rf ~`, look)

  expect(lines[0]).toContain('200,015 characters in 1 line.')
  expect(lines.at(-1)).toMatch(/x; rm -rf ~$/)
  expect(lines).toHaveLength(26)
})

test('fits any text to the screen', () => {
  const text = fc.oneof(
    fc.string({ unit: 'grapheme', maxLength: 5000 }),
    fc.array(fc.string({ maxLength: 80 }), { maxLength: 200 }).map((lines) => lines.join('\n')),
  )
  fc.assert(
    fc.property(text, (command) => {
      const lines = excerpt(command, look)
      expect(lines.length).toBeLessThanOrEqual(26)
      expect(lines.slice(1).every((line) => widthOf(line) <= 80)).toBe(true)
    }),
  )
})
