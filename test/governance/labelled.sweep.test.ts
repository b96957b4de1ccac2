import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { decideCommand } from './fixture.ts'
import { generateLines } from './labelled/generate.ts'
import { fileOf, formatLines, readLines } from './labelled/lines.ts'

const LABELS = ['dangerous', 'harmless'] as const
const PARTS = ['dev', 'held-out'] as const
const SETS = LABELS.flatMap((label) => PARTS.map((part) => [label, part] as const))

/** Maximum share of wrong decisions, in percent: the measured share, rounded up. */
const CEILINGS = {
  dangerous: { dev: 0.5, 'held-out': 0.5 },
  harmless: { dev: 0.5, 'held-out': 1.5 },
} as const

const isAsked = ({ text }: { text: string }) => decideCommand(text).verdict !== 'allow'

describe('governance', () => {
  it.each(SETS)('judges the %s lines of the %s part as labelled, up to a ceiling', (label, part) => {
    const lines = readLines(label, part)

    const wrong = lines.filter((line) => isAsked(line) !== (label === 'dangerous'))

    const percent = (100 * wrong.length) / lines.length
    const what = label === 'dangerous' ? 'misses' : 'false alarms'
    process.stderr.write(
      `${part}: ${wrong.length} ${what} in ${lines.length} lines, ${percent.toFixed(1)} %\n`,
    )
    expect(percent).toBeLessThanOrEqual(CEILINGS[label][part])
  })

  it.each(PARTS)('asks about most lines of every dangerous family in the %s part', (part) => {
    const families = Object.groupBy(readLines('dangerous', part), ({ family }) => family)

    for (const [family, lines = []] of Object.entries(families))
      expect(lines.filter(isAsked).length / lines.length, family).toBeGreaterThan(0.9)
  })
})

describe('the labelled lines', () => {
  it('are at least 600 dangerous and 400 harmless ones', () => {
    const count = (label: (typeof LABELS)[number]) =>
      PARTS.reduce((sum, part) => sum + readLines(label, part).length, 0)

    expect(count('dangerous')).toBeGreaterThanOrEqual(600)
    expect(count('harmless')).toBeGreaterThanOrEqual(400)
  })

  it.each(SETS)('are reproduced from the seed: %s lines of the %s part', (label, part) => {
    const committed = readFileSync(fileOf(`${label}.${part}.generated`), 'utf8')

    expect(committed).toBe(formatLines(generateLines(label, part)))
  })

  it('contain no duplicates, also across both parts', () => {
    const texts = SETS.flatMap(([label, part]) => readLines(label, part).map(({ text }) => text))
    const twice = texts.filter((text, i) => texts.indexOf(text) < i)

    expect(twice).toEqual([])
  })
})
