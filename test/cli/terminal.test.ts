import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { age, duration } from '../../cli/terminal/duration.ts'
import { createPaint, wantsColour } from '../../cli/terminal/paint.ts'
import { createProgress } from '../../cli/terminal/progress.ts'
import { table } from '../../cli/terminal/table.ts'
import { createTerminal } from '../../cli/terminal/terminal.ts'
import { harmless, readable, visible } from '../../cli/terminal/visible.ts'
import { clip, widthOf, wrap } from '../../cli/terminal/wrap.ts'

const plain = createPaint(false)

describe('hidden characters', () => {
  test.each([
    ['a right-to-left override', 'a\u202eb', 'a<U+202E>b'],
    ['a zero-width space', 'rm\u200b -rf', 'rm<U+200B> -rf'],
    ['a non-breaking space', 'rm\u00a0-rf', 'rm<U+00A0>-rf'],
    ['a tag character', 'x\u{e0041}', 'x<U+E0041>'],
    ['an escape', '\u001b[2J', '<U+001B>[2J'],
    ['a carriage return that hides the line', 'evil\rgood', 'evil<U+000D>good'],
    ['a line separator', 'a\u2028b', 'a<U+2028>b'],
    ['a combining mark', 'rm -rf /tmp\u0338x', 'rm -rf /tmp<U+0338>x'],
    ['a mark around a letter', 'a\u20dd', 'a<U+20DD>'],
    ['an emoji selector after a letter', 'rm\ufe0f', 'rm<U+FE0F>'],
    ['an empty braille pattern', 'a\u2800b', 'a<U+2800>b'],
    ['a private-use character', 'a\ue000', 'a<U+E000>'],
    ['a lone surrogate', 'a\ud800b', 'a<U+D800>b'],
  ])('%s is escaped', (_what, text, expected) => {
    expect(visible(text)).toBe(expected)
  })

  test('plain text, tabs, line feeds and emoji stay unchanged', () => {
    const text = 'rm -rf build\n\tand \u26a0\ufe0f über 日本語'

    expect(visible(text)).toBe(text)
  })

  test('prose keeps combining marks and escapes invisible characters', () => {
    expect(readable('\u0928\u092e\u0938\u094d\u0924\u0947 e\u0301\u202e')).toBe(
      '\u0928\u092e\u0938\u094d\u0924\u0947 e\u0301<U+202E>',
    )
  })

  test('a command may colour its output but not control the terminal', () => {
    const output = '\u001b[31mred\u001b[0m\r\n\u001b]52;c;ZXZpbA==\u0007\u001b[2J'

    expect(harmless(output)).toBe('\u001b[31mred\u001b[0m\n<U+001B>]52;c;ZXZpbA==<U+0007><U+001B>[2J')
  })

  test('no text keeps a control character except tab, line feed and colour', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const shown = harmless(text).replaceAll(/\u001b\[[0-9;:]*m/g, '')
        expect(shown).not.toMatch(/(?![\t\n])\p{Cc}/u)
      }),
    )
  })
})

describe('wrapping', () => {
  test('breaks between words and cuts words that are longer than a line', () => {
    expect(wrap('one two three four five', 20)).toEqual(['one two three four', 'five'])
    expect(wrap('x'.repeat(45), 20).map(widthOf)).toEqual([20, 20, 5])
  })

  test('no line is wider than requested, and no visible character is lost', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.integer({ min: 20, max: 60 }), (text, width) => {
        const lines = wrap(text, width)
        expect(lines.every((line) => widthOf(line) <= width)).toBe(true)
        expect(lines.join('').replaceAll(/\s/g, '')).toBe(text.replaceAll(/\s/g, ''))
      }),
    )
  })

  test('counts wide characters twice and ignores colours', () => {
    expect(widthOf('日本')).toBe(4)
    expect(widthOf(createPaint(true).red('ab'))).toBe(2)
  })

  test('cuts a text to one line and marks the cut', () => {
    expect(clip('first line\nsecond line', 12)).toBe('first line …')
  })
})

test("a table is aligned and its last column ends at the terminal's width", () => {
  const rows = [
    { id: 'a', text: 'short' },
    { id: 'bbbb', text: 'x'.repeat(50) },
  ]

  const lines = table(
    rows,
    [
      { title: 'ID', value: ({ id }) => id },
      { title: 'TEXT', value: ({ text }) => text },
    ],
    { paint: plain, width: 30 },
  )

  expect(lines).toEqual(['ID    TEXT', 'a     short', `bbbb  ${'x'.repeat(23)}…`])
})

test.each([
  [412, '412 ms'],
  [2300, '2.3 s'],
  [61_000, '1 min 1 s'],
  [7_260_000, '2 h 1 min'],
  [604_799_000, '6 d 23 h'],
])('formats %i ms as %s', (ms, expected) => {
  expect(duration(ms)).toBe(expected)
})

test('formats an age with one unit', () => {
  expect(age('2026-01-01T00:00:00Z', Date.parse('2026-01-01T05:30:00Z'))).toBe('5 h')
  expect(age('2026-01-01T00:00:00Z', Date.parse('2026-01-01T00:00:00Z'))).toBe('0 s')
})

test.each([
  [{ isTTY: true }, {}, true],
  [{ isTTY: true }, { NO_COLOR: '1' }, false],
  [{ isTTY: true }, { TERM: 'dumb' }, false],
  [{}, {}, false],
])('colours for %j with %j: %s', (stream, env, expected) => {
  expect(wantsColour(stream, env)).toBe(expected)
})

test('progress prints nothing without a terminal', () => {
  let written = ''
  using progress = createProgress({ write: (text) => (written += text) })

  progress.waitFor('something')
  progress.clear()

  expect(written).toBe('')
})

test('JSON at a terminal contains no control character that terminals interpret', () => {
  const lines: string[] = []
  const stdout = { write: (text: string) => lines.push(text) } as unknown as NodeJS.WriteStream
  const terminal = createTerminal({ stdin: process.stdin, stdout, stderr: stdout, env: {}, cwd: '/' })

  terminal.json({ text: '\u009b2J\u007f' })

  expect(lines.join('')).toBe('{"text":"\\u009b2J\\u007f"}\n')
  expect(JSON.parse(lines.join(''))).toEqual({ text: '\u009b2J\u007f' })
})
