import { afterAll, describe, expect, it } from 'vitest'
import { decideCommand } from './fixture.ts'
import { type Label, type LabelledLine, readLines } from './labelled/lines.ts'
import { openOracle } from './oracle.ts'

/** Families that need only bash, coreutils, git and the programs that the oracle provides. */
const SHELL_FAMILIES = ['spelling', 'wrappers', 'nested', 'dynamic', 'fetched', 'interpreters', 'generated']
const HARMLESS_FAMILIES = ['mentions', 'heredocs', 'inline-code', 'generated']
/** Destructive lines that are allowed without approval. Listed in docs/governance.md. */
const KNOWN_MISSES = [`awk '{ print | "sh" }' <<< 'rm -rf b'`]
const ONE_IN = { dangerous: 24, harmless: 3 }
const AT_ONCE = 4

const linesOf = (label: Label, families: readonly string[]): LabelledLine[] =>
  (['dev', 'held-out'] as const)
    .flatMap((part) => readLines(label, part))
    .filter(({ family }) => families.includes(family))

const oracle = await openOracle()
const why = typeof oracle === 'string' ? ` (skipped: ${oracle})` : ''

describe.skipIf(typeof oracle === 'string')(`the shell that runs commands${why}`, () => {
  const { destroyedBy, close } = typeof oracle === 'string' ? neverOpened() : oracle
  afterAll(close)

  async function destroyedByEach(lines: readonly LabelledLine[]): Promise<Map<string, string | undefined>> {
    const left = [...lines]
    const found = new Map<string, string | undefined>()
    const work = async () => {
      for (let line = left.shift(); line; line = left.shift())
        found.set(line.text, await destroyedBy(line.text))
    }
    await Promise.all(Array.from({ length: AT_ONCE }, work))
    return found
  }

  it('destroys what the labels say', { timeout: 300_000 }, async () => {
    const lines = linesOf('dangerous', SHELL_FAMILIES).filter((_line, i) => i % ONE_IN.dangerous === 0)

    const found = await destroyedByEach(lines)

    const destroyed = [...found.values()].filter((what) => what !== undefined)
    // The other lines need programs that this machine or the sandbox lacks.
    expect(destroyed.length / lines.length).toBeGreaterThan(0.75)
  })

  it('destroys nothing with a line that is allowed without approval', { timeout: 300_000 }, async () => {
    const harmless = linesOf('harmless', HARMLESS_FAMILIES).filter((_line, i) => i % ONE_IN.harmless === 0)
    const lines = [...harmless, ...linesOf('dangerous', SHELL_FAMILIES)].filter(
      ({ text }) => decideCommand(text).verdict === 'allow',
    )

    const found = await destroyedByEach(lines)

    const destructive = [...found].flatMap(([text, what]) => (what === undefined ? [] : text))
    expect(destructive).toEqual(KNOWN_MISSES)
    expect(lines.length).toBeGreaterThan(80)
  })
})

function neverOpened(): Exclude<typeof oracle, string> {
  return { destroyedBy: async () => undefined, close: () => undefined }
}
