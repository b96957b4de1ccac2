import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { generateLines } from './labelled/generate.ts'
import { fileOf, formatLines, readLines } from './labelled/lines.ts'

const LABELS = ['dangerous', 'harmless'] as const
const PARTS = ['dev', 'held-out'] as const
const SETS = LABELS.flatMap((label) => PARTS.map((part) => [label, part] as const))

describe('the labelled set', () => {
  it('has at least 600 dangerous and 400 harmless lines', () => {
    const count = (label: (typeof LABELS)[number]) =>
      PARTS.reduce((sum, part) => sum + readLines(label, part).length, 0)

    expect(count('dangerous')).toBeGreaterThanOrEqual(600)
    expect(count('harmless')).toBeGreaterThanOrEqual(400)
  })

  it.each(SETS)('generates the %s lines of the %s part from its seed', (label, part) => {
    const committed = readFileSync(fileOf(`${label}.${part}.generated`), 'utf8')

    expect(committed).toBe(formatLines(generateLines(label, part)))
  })

  it('has no line twice, and none in both parts', () => {
    const texts = SETS.flatMap(([label, part]) => readLines(label, part).map(({ text }) => text))
    const twice = texts.filter((text, i) => texts.indexOf(text) < i)

    expect(twice).toEqual([])
  })
})
