import { describe, expect, it } from 'vitest'
import { processorMs } from '../helpers/processor-time.ts'
import { decideCommand, governanceWith } from './fixture.ts'
import { DESTRUCTIVE_COMMANDS, HARMLESS_COMMANDS } from './shell-corpus.ts'

describe('destructive commands', () => {
  it.each(DESTRUCTIVE_COMMANDS)('asks a person about %j', (command) => {
    expect(decideCommand(command).verdict).toBe('ask')
  })

  it.each(HARMLESS_COMMANDS)('lets %j pass', (command) => {
    expect(decideCommand(command)).toMatchObject({ verdict: 'allow', matched: [] })
  })

  it('says which pattern a command matched and why it is asked about', () => {
    const decision = decideCommand('cd x && sudo rm -fr y')

    expect(decision).toEqual({
      verdict: 'ask',
      rule: 'destructive',
      reasons: ['deletes a tree without asking'],
      matched: ['rm -r,-R,--recursive'],
    })
  })
})

describe('commands that the text does not show', () => {
  it.each([
    ['a syntax error', 'echo "unfinished'],
    ['a name from a variable', '$TOOL --help'],
    ['a script from a variable', 'bash -c "$SCRIPT"'],
    ['a name with a wildcard', '/bin/r? x'],
    ['eval', 'eval "$(ssh-agent)"'],
  ])('asks about %s', (_what, command) => {
    expect(decideCommand(command)).toMatchObject({ verdict: 'ask', rule: 'unclear-shell' })
  })
})

describe('patterns of the settings', () => {
  it('asks about a command that only a pattern of the settings names', () => {
    const governance = governanceWith({ destructive_command_patterns: ['make deploy'] })

    expect(decideCommand('make -j4 deploy', governance)).toMatchObject({
      verdict: 'ask',
      matched: ['make deploy'],
    })
    expect(decideCommand('make test', governance).verdict).toBe('allow')
    expect(decideCommand('make deploy').verdict).toBe('allow')
  })

  it('refuses to start with a pattern that cannot act', () => {
    expect(() => governanceWith({ destructive_command_patterns: ['rm; x'] })).toThrow('must not contain ";"')
  })
})

describe('hostile text', () => {
  const LENGTH = 65_536
  const unreadable = ['a|', 'a=(', '((a', '[[ a && ', 'a<<b|', '$(', '`', '${', '$((a', '{ a;', '<<a ', 'a;']
  const readable = ['> a ', '"', '\\', ' ']
  const fill = (piece: string) => piece.repeat(Math.ceil(LENGTH / piece.length)).slice(0, LENGTH)

  it.each(unreadable)('asks about 64 KiB of %j, within seconds', (piece) => {
    const ms = processorMs(() => expect(decideCommand(fill(piece)).verdict).toBe('ask'))

    expect(ms).toBeLessThan(5000)
  })

  it.each(readable)('answers about 64 KiB of %j within seconds', (piece) => {
    const ms = processorMs(() => expect(decideCommand(fill(piece)).verdict).not.toBe('deny'))

    expect(ms).toBeLessThan(5000)
  })

  it('compares a long word with long patterns of a repository within a second', () => {
    const patterns = Array.from({ length: 128 }, (_, at) => `x *${'a'.repeat(450)}b${at}`)
    const governance = governanceWith({ destructive_command_patterns: patterns })

    const ms = processorMs(() =>
      expect(decideCommand(`x ${'a'.repeat(60_000)}`, governance).verdict).toBe('allow'),
    )

    expect(ms).toBeLessThan(1000)
  })

  it('compares many words with as many alternatives as settings may have within seconds', () => {
    const patterns = Array.from({ length: 10 }, () => `x ${'*b,'.repeat(99)}*b`)
    const governance = governanceWith({ destructive_command_patterns: patterns })

    const ms = processorMs(() => decideCommand(`x ${'a '.repeat(9000)}`, governance))

    expect(ms).toBeLessThan(5000)
  })

  it('still judges ordinary commands after hostile ones', () => {
    decideCommand('a=('.repeat(20_000))

    expect(decideCommand('ls -la').verdict).toBe('allow')
    expect(decideCommand('rm -rf x').verdict).toBe('ask')
  })
})
