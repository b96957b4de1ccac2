import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { equalsInConstantTime } from '../../runtime/kit/constant-time.ts'

const FOLDER = fileURLToPath(new URL('../../runtime/agent-host', import.meta.url))
const SECRET = /(?:token|bearer|digest|body_sha256|signature|secret)\b/i

/** Returns the lines that compare a secret without a constant-time function. */
const leaks = (source: string): string[] =>
  source
    .split('\n')
    .filter((line) => /[!=]==?|\.(?:startsWith|endsWith|includes|indexOf|localeCompare)\(/.test(line))
    .filter((line) => SECRET.test(line.replace(/['"`][^'"`]*['"`]/g, '')))
    .filter((line) => !/[!=]== (?:undefined|null)|=== tarIn|^\s*(?:\*|\/\/|\/\*)/.test(line))
    .map((line) => line.trim())

const sources = readdirSync(FOLDER, { recursive: true, encoding: 'utf8' }).filter((file) =>
  file.endsWith('.ts'),
)

/** Comparisons whose timing reveals nothing, because the caller already knows both sides. */
const HARMLESS = [
  // The announced digest of a session and the session come from the same caller.
  'if (digest !== session?.sha256) {',
  // Both requests come from the same caller, which has the bearer token.
  'if (known && known.digest !== digest) {',
]

it('compares no secret but in constant time', () => {
  const found = sources.flatMap((file) => leaks(readFileSync(join(FOLDER, file), 'utf8')))

  expect(sources.length).toBeGreaterThan(30)
  expect(found.filter((line) => !HARMLESS.includes(line))).toEqual([])
})

it.each([
  'if (token === taken.turnBearerToken) return',
  'return bearer.startsWith(expected)',
  'if (digest !== claims.body_sha256) throw refuse()',
])('finds a planted leak: %s', (line) => {
  expect(leaks(line)).toHaveLength(1)
})

it.each([
  ['', ''],
  ['a', 'a'],
  ['é', 'é'],
])('takes %j for %j', (a, b) => {
  expect(equalsInConstantTime(a, b)).toBe(true)
})

it.each([
  ['a', 'b'],
  ['a', ''],
  ['a', 'aa'],
  ['é', 'e\u0301'],
  ['a\0', 'a'],
])('distinguishes %j from %j, for any lengths', (a, b) => {
  expect(equalsInConstantTime(a, b)).toBe(false)
})
