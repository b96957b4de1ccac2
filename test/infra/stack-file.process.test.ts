import { readdirSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { parseStackFile } from '../../infra/config-schema.ts'
import { readStackText } from '../../infra/stack-file.ts'
import { buildGoReader, byYaml11 } from './other-yaml-readers.ts'
import { writeStackText } from './write-stack-text.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const FILES = readdirSync(ROOT).filter((file) => /^Pulumi\.[a-z0-9-]+\.yaml$/.test(file))
const COMMITTED = FILES.map((file) => [file, readFileSync(resolve(ROOT, file), 'utf8')] as const)

const fileWith = (scalar: string) => `config:\n  agentweaver:section:\n    key: ${scalar}\n`
const problemsWith = (scalar: string) => readStackText(fileWith(scalar)).problems

/** Scalars that YAML readers interpret differently. */
const AMBIGUOUS: readonly (readonly [string, RegExp])[] = [
  ['2026-11-01', /a time to some .*in quotes, such as "2026-11-01"/],
  // Pulumi writes this form when it rewrites a file with an unquoted date.
  ['2026-11-01 00:00:00 +0000 UTC', /a time to some .*in quotes, such as "2026-11-01"/],
  ['2027-01-31T00:00:00Z', /a time to some/],
  ...['on', 'off', 'yes', 'No', 'y', 'N', 'True', 'FALSE'].map(
    (text) => [text, /a boolean to some .*write true or false/] as const,
  ),
  ...['1_000', '0b11', '012', '0o17', '0x1f', '0X1F', '1:30', '190:20:30', '.inf', '-.Inf', '.NaN'].map(
    (text) => [text, /different numbers or as text: write a number in plain digits/] as const,
  ),
  ...['+1', '1.', '.5', '1e3', '12E+03', '1_0.5', '-0', '9007199254740993'].map(
    (text) => [text, /different numbers or as text/] as const,
  ),
  ...['~', 'null', 'NULL', ''].map((text) => [text, /means no value: remove the key/] as const),
  ...['<<', '='].map((text) => [text, /merge or replace/] as const),
  ['!!str 5', /has the tag .*remove it/],
]

/** Unquoted scalars, half of them of the characters in numbers and times. */
const bare = fc
  .oneof(
    fc.string({ unit: fc.constantFrom(...'0123456789_-+.:eExXobT '), maxLength: 12 }),
    fc.string({ unit: 'grapheme-ascii', maxLength: 12 }),
  )
  .filter((text) => !/^\s*[[{]/.test(text))
/** Returns the first reader's value of a file, or undefined if the reader rejects the file. */
function accepted(text: string): { readonly value: unknown } | undefined {
  try {
    return readStackText(text).problems.length > 0 ? undefined : { value: parse(text) }
  } catch {
    return undefined
  }
}

describe('a scalar that YAML readers disagree about', () => {
  test.each(AMBIGUOUS)('%j is rejected with the correction, and accepted in quotes', (scalar, says) => {
    expect(problemsWith(scalar)).toEqual([{ path: 'section.key', message: expect.stringMatching(says) }])
    expect(problemsWith(JSON.stringify(scalar))).toEqual([])
  })

  test.each(['true', 'false', '0', '5', '-3', '2500.75', '10.40.0.0/16', 'Standard_D8ds_v5', 'a@b.example'])(
    '%s is accepted',
    (scalar) => {
      expect(problemsWith(scalar)).toEqual([])
    },
  )

  test('is rejected as a key and in a list too, with its position', () => {
    const text = 'config:\n  agentweaver:a:\n    on: 1\n  agentweaver:b: [x, 012]\n  agentweaver:c: 1:30\n'

    expect(readStackText(text).problems.map(({ path }) => path)).toEqual(['a.on', 'b.1', 'c'])
  })

  test('is reported once, together with all other mistakes of the file', () => {
    const text = COMMITTED.find(([file]) => file === 'Pulumi.dev.yaml')?.[1] ?? ''
    const broken = text.replace('"2026-11-01"', '2026-11-01').replace('amount: 2500', 'amount: -1')

    const parsed = parseStackFile(readStackText(broken))

    expect(parsed).toMatchObject({
      problems: [
        { path: 'budget.startDate', message: expect.stringContaining('in quotes') },
        { path: 'budget.amount' },
      ],
    })
  })
})

test.each([
  ['%YAML 1.1\n---\nconfig: {}\n', /%YAML line/],
  ['config:\n  a: 1\n  a: 2\n', /Map keys must be unique/],
  ['config: {}\n---\nconfig: {}\n', /multiple documents/],
  ['- 1\n', /no mapping under/],
])('%j is not a stack file', (text, says) => {
  expect(() => readStackText(text)).toThrow(says)
})

test('rejects an anchor and its alias, because Pulumi expands them when it rewrites the file', () => {
  const text = 'config:\n  agentweaver:a: &x me\n  agentweaver:b: *x\n'

  expect(readStackText(text).problems).toEqual([
    { path: 'a', message: 'has the anchor &x: remove it' },
    { path: 'b', message: 'is an alias: write the value itself' },
  ])
})

describe('a second reader, by YAML 1.1', () => {
  test.each(COMMITTED)('reads %s as the first does', (_, text) => {
    expect(byYaml11(text)).toEqual(parse(text))
    expect(readStackText(text).problems).toEqual([])
  })

  test('would show each of the ambiguous numbers, dates and booleans', () => {
    const differing = ['2026-11-01', '1_000', '0b11', 'on', 'yes', '012', '1:30', '0o17', '1e3'].filter(
      (scalar) => JSON.stringify(byYaml11(fileWith(scalar))) !== JSON.stringify(parse(fileWith(scalar))),
    )

    expect(differing).toHaveLength(9)
  })

  test('agrees on every unquoted scalar that is accepted', () => {
    fc.assert(
      fc.property(bare, (scalar) => {
        const text = fileWith(scalar)
        const first = accepted(text)
        if (first !== undefined) expect(byYaml11(text)).toEqual(first.value)
      }),
      { numRuns: 5000 },
    )
  })

  test('parses the output of our tools to the original value, for any text', () => {
    const content = fc.record({
      text: fc.string({ unit: 'grapheme' }),
      spelling: fc.string({ unit: 'grapheme-ascii' }),
    })
    fc.assert(
      fc.property(content, (section) => {
        const text = writeStackText({ config: { 'agentweaver:section': section } })

        expect(readStackText(text)).toEqual({ config: { 'agentweaver:section': section }, problems: [] })
        expect(byYaml11(text)).toEqual({ config: { 'agentweaver:section': section } })
      }),
      { numRuns: 500 },
    )
  })
})

const go = buildGoReader()
afterAll(() => go[Symbol.dispose]())

describe.skipIf('absent' in go)(
  `a third reader, Pulumi's own${'absent' in go ? ` (skipped: ${go.absent})` : ''}`,
  () => {
    const read = (texts: readonly string[]) => ('read' in go ? go.read(texts) : [])

    test('reads the committed files in the same way', () => {
      const texts = COMMITTED.map(([, text]) => text)

      expect(read(texts)).toEqual(texts.map((text) => parse(text)))
    })

    test('reads the output of our tools with the intended values', () => {
      const scalars = AMBIGUOUS.map(([scalar]) => scalar)

      expect(read(scalars.map((scalar) => writeStackText({ config: { a: scalar } })))).toEqual(
        scalars.map((scalar) => ({ config: { a: scalar } })),
      )
    })

    test('agrees on unquoted scalars that are accepted', () => {
      const texts = fc.sample(bare, { numRuns: 20_000, seed: 7 }).map(fileWith)
      const taken = texts.filter((text) => accepted(text) !== undefined)

      const values = read(taken)

      expect(taken.length).toBeGreaterThan(5000)
      expect(taken.filter((text, index) => !isDeepStrictEqual(values[index], accepted(text)?.value))).toEqual(
        [],
      )
    })

    test('reads an unquoted date as a time and 012 as ten, so both are rejected', () => {
      expect(read([fileWith('2026-11-01'), fileWith('012')])).toMatchObject([
        { config: { 'agentweaver:section': { key: '2026-11-01T00:00:00Z' } } },
        { config: { 'agentweaver:section': { key: 10 } } },
      ])
    })
  },
)
