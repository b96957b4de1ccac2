import fc from 'fast-check'
import picomatch from 'picomatch'
import { describe, expect, it } from 'vitest'
import { compileGlob } from '../../runtime/workspace/glob.ts'
import { processorMs } from '../helpers/processor-time.ts'

const CASES: readonly [string, readonly string[], readonly string[]][] = [
  ['*.ts', ['a.ts', 'deep/er/b.ts', '.hidden.ts'], ['a.tsx', 'a.ts/b']],
  ['package.json', ['package.json', 'a/package.json'], ['xpackage.json', 'package.json.bak']],
  ['src/*.ts', ['src/a.ts'], ['src/b/a.ts', 'lib/src/a.ts']],
  ['src/**/*.ts', ['src/a.ts', 'src/b/c/a.ts'], ['a.ts', 'src']],
  ['**/test/**', ['test/a', 'x/test/y/z'], ['testing/a']],
  ['**/*.{ts,tsx}', ['a.ts', 'b/c.tsx'], ['a.js']],
  ['./docs/?.md', ['docs/a.md'], ['docs/ab.md', 'docs//.md']],
  ['[abc].txt', ['a.txt', 'x/c.txt'], ['d.txt']],
  ['[!abc].txt', ['d.txt'], ['a.txt']],
  ['[a-c]x', ['bx'], ['dx', '-x']],
  ['\\*.txt', ['*.txt'], ['a.txt']],
  ['a.b', ['a.b'], ['aXb']],
  ['{a,b{1,2}}.c', ['a.c', 'b1.c', 'b2.c'], ['b.c', '{a.c']],
  ['x[', ['x['], ['x']],
  ['(a|b)', ['(a|b)'], ['a', 'b']],
  ['a,b', ['a,b'], ['a']],
]

describe('a glob', () => {
  it.each(CASES)('%s matches as documented', (pattern, matching, others) => {
    const isMeant = compileGlob(pattern)
    expect(matching.filter((path) => !isMeant(path))).toEqual([])
    expect(others.filter(isMeant)).toEqual([])
  })

  it.each(['{a', '{a,{b}'])('%s is rejected', (pattern) => {
    expect(() => compileGlob(pattern)).toThrow(/glob/)
  })

  it('is rejected with too many alternatives', () => {
    expect(() => compileGlob(`{${'a,'.repeat(100)}}`)).toThrow(/alternatives/)
  })

  it('matches like picomatch', () => {
    const segment = fc
      .array(fc.constantFrom('a', 'b', '*', '?', '.', '[ab]', '{a,b}', 'ab'), { minLength: 1, maxLength: 3 })
      .map((pieces) => pieces.join(''))
      // The dialects differ for `**` inside a name and for names that consist of dots.
      .filter((text) => !text.includes('**') && !/^\.+$/.test(text))
    const pattern = fc
      .array(fc.oneof(segment, fc.constant('**')), { minLength: 2, maxLength: 4 })
      .filter((segments) => segments.at(-1) !== '**' && !segments.join('/').includes('**/**'))
      .map((segments) => segments.join('/'))
    const path = fc
      .array(fc.constantFrom('a', 'b', 'ab', 'a.b', '.a', 'aab', 'c'), { minLength: 1, maxLength: 4 })
      .map((names) => names.join('/'))

    fc.assert(
      fc.property(pattern, fc.array(path, { minLength: 1, maxLength: 8 }), (glob, paths) => {
        const isMeant = picomatch(glob, { dot: true, noextglob: true })
        expect(paths.filter(compileGlob(glob))).toEqual(paths.filter((path) => isMeant(path)))
      }),
      { numRuns: 1000 },
    )
  })

  it('needs no longer for a pattern that makes a backtracking engine try everything', () => {
    const pattern = `${'*a'.repeat(30)}*b`
    const name = 'a'.repeat(255)

    const ms = processorMs(() => expect(compileGlob(pattern)(name)).toBe(false))

    expect(ms).toBeLessThan(2000)
  })
})
