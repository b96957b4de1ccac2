import { execFileSync } from 'node:child_process'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { toLine } from '../../cli/commands/shell-words.ts'
import { quoteWord } from '../../cli/terminal/shell-word.ts'

/** The words that a shell passes to a program. */
function wordsOf(shell: string, line: string): string[] {
  const script = `show() { printf '%s\\0' "$@"; }; show ${line}`
  const output = execFileSync(shell, ['-c', script], { encoding: 'utf8' })
  return output.split('\0').slice(0, -1)
}

const SPECIAL = [...'\'"`$\\!#&*()[]{}<>|;?~^%=+-,:@ \t\n\r\u0001\u00e9\u2028aZ0']
const words = fc.array(fc.string({ unit: fc.oneof(fc.constantFrom(...SPECIAL), fc.string()) }), {
  minLength: 1,
  maxLength: 20,
})
const hasNul = (list: readonly string[]) => list.some((word) => word.includes('\0'))

it.each(['bash', 'dash'])('quotes any words so that %s reads the same words', (shell) => {
  fc.assert(
    fc.property(words, (list) => {
      fc.pre(!hasNul(list))
      const quoted = list.map(quoteWord).join(' ')
      expect(wordsOf(shell, quoted)).toEqual(list)
    }),
    { numRuns: 200 },
  )
})

it('does not quote a path, an image or an option', () => {
  const plain = ['/home/alice/a-b_c.txt', 'registry.example/image:1@sha256', '--flag=value', '50%', 'a,b+c']

  expect(plain.map(quoteWord)).toEqual(plain)
})

it.each(['PATH=/nowhere', 'PATH+=/nowhere'])(
  'does not set a variable if the program is called %s',
  (program) => {
    const run = (line: string) => execFileSync('bash', ['-c', `${line} 2>&1 || true`], { encoding: 'utf8' })

    // The same words without quotes succeed.
    expect(run(`${program} :`)).toBe('')
    expect(run(toLine([program, ':']))).toMatch(/No such file or directory|command not found/)
  },
)
