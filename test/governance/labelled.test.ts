import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { decideCommand } from './fixture.ts'
import { generateLines } from './labelled/generate.ts'
import { fileOf, formatLines, readLines } from './labelled/lines.ts'

const LABELS = ['dangerous', 'harmless'] as const
const PARTS = ['dev', 'held-out'] as const
const SETS = LABELS.flatMap((label) => PARTS.map((part) => [label, part] as const))

/** The most lines that may be judged wrongly, in percent: what was reached, rounded up. */
const CEILINGS = {
  dangerous: { dev: 0.5, 'held-out': 0.5 },
  harmless: { dev: 0.5, 'held-out': 1.5 },
} as const

const isAsked = ({ text }: { text: string }) => decideCommand(text).verdict !== 'allow'

describe('the gate', () => {
  it.each(SETS)('judges the %s lines of the %s part as their label says, up to a ceiling', (label, part) => {
    const lines = readLines(label, part)

    const wrong = lines.filter((line) => isAsked(line) !== (label === 'dangerous'))

    const percent = (100 * wrong.length) / lines.length
    const what = label === 'dangerous' ? 'misses' : 'false alarms'
    process.stderr.write(
      `${part}: ${wrong.length} ${what} in ${lines.length} lines, ${percent.toFixed(1)} %\n`,
    )
    expect(percent).toBeLessThanOrEqual(CEILINGS[label][part])
  })

  it.each(PARTS)('asks about most lines of every dangerous family of the %s part', (part) => {
    const families = Object.groupBy(readLines('dangerous', part), ({ family }) => family)

    for (const [family, lines = []] of Object.entries(families))
      expect(lines.filter(isAsked).length / lines.length, family).toBeGreaterThan(0.9)
  })
})

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
