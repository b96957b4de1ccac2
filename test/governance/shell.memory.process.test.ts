import { execFileSync } from 'node:child_process'
import { expect, it } from 'vitest'

const GRAMMAR = new URL('../../runtime/governance/shell/grammar.ts', import.meta.url).href

/** Parses scripts in a new process and prints its peak memory. */
const PROBE = `
  const { loadShellGrammar } = await import('${GRAMMAR}')
  const grammar = await loadShellGrammar()
  for (let i = 0; i < 400; i++) {
    grammar.parse('mkdir build && rm -rf build && echo removed')
    if (i % 50 === 0) await new Promise((resolve) => setTimeout(resolve, 50))
  }
  // What works in the background has begun by then.
  await new Promise((resolve) => setTimeout(resolve, 1500))
  process.stdout.write(String(process.resourceUsage().maxRSS))`

it('parses scripts within the memory of a pod', () => {
  const kibibytes = Number(
    execFileSync(process.execPath, ['--input-type=module', '--eval', PROBE], { encoding: 'utf8' }),
  )

  expect(kibibytes / 1024).toBeGreaterThan(40)
  expect(kibibytes / 1024).toBeLessThan(160)
})
