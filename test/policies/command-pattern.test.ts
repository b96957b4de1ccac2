import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseCommandPattern } from '../../policies/agent/command-pattern.ts'
import { matchesGlob } from '../../policies/agent/glob.ts'
import { processorMs } from '../helpers/processor-time.ts'

describe('a command pattern', () => {
  it('is read into names, flags, operands and targets', () => {
    const parsed = parseCommandPattern('git,hub push -f,--Force +* > /dev/sd*')

    expect(parsed).toMatchObject({
      ok: true,
      pattern: {
        stages: [
          {
            names: ['git', 'hub'],
            words: [
              { kind: 'operand', anyOf: ['push'] },
              { kind: 'flag', anyOf: ['-f', '--force'] },
              { kind: 'operand', anyOf: ['+*'] },
              { kind: 'output', anyOf: ['/dev/sd*'] },
            ],
          },
        ],
      },
    })
  })

  it('has one stage per command of a pipeline', () => {
    const parsed = parseCommandPattern('* | sh @stdin')

    expect(parsed.ok && parsed.pattern.stages.map(({ names }) => names)).toEqual([['*'], ['sh']])
  })

  it.each([
    ['', 'is empty'],
    ['   ', 'is empty'],
    ['*', 'matches every command'],
    ['| sh', 'without a command'],
    ['curl |', 'without a command'],
    ['-f rm', 'must begin with a command name'],
    ['rm >', 'without a file'],
    ['rm @nothing', 'unknown word'],
    ['rm a,,b', 'empty alternative'],
    ['rm -f,x', 'mixes flags'],
    ['rm "x"', 'must not contain'],
    ['rm $x', 'must not contain'],
    ['rm\nx', 'must not contain'],
    ['rm -', 'flag without a letter'],
    [`rm ${'x '.repeat(40)}`, 'more than'],
  ])('is rejected if it is invalid: %j', (text, reason) => {
    expect(parseCommandPattern(text)).toMatchObject({ ok: false, reason: expect.stringContaining(reason) })
  })

  it('has an answer for every text', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary', maxLength: 64 }),
        (text) => typeof parseCommandPattern(text).ok === 'boolean',
      ),
    )
  })
})

describe('a glob', () => {
  it('matches as a regular expression of it does', () => {
    const short = (chars: string) => fc.string({ unit: fc.constantFrom(...chars), maxLength: 8 })
    fc.assert(
      fc.property(short('ab*'), short('ab'), (glob, text) => {
        expect(matchesGlob(glob, text)).toBe(new RegExp(`^${glob.replace(/\*/g, '.*')}$`).test(text))
      }),
    )
  })

  it('stays fast for hostile input', () => {
    const ms = processorMs(() =>
      expect(matchesGlob('*a'.repeat(200), 'a'.repeat(20_000).concat('b'))).toBe(false),
    )

    expect(ms).toBeLessThan(1000)
  })
})
