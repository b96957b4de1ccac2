import { describe, expect, it } from 'vitest'
import { parseEnding, releaseMessage } from '../../runtime/executors/process/command-supervisor.ts'

describe('parseEnding and releaseMessage', () => {
  it.each([
    ['exit 0\n', { kind: 'exit', code: 0 }],
    ['exit 137\n', { kind: 'exit', code: 137 }],
    ['Killed\nexit 137\n', { kind: 'signal', signal: 'SIGKILL' }],
    ['sh: line 1:     7 Segmentation fault      (exec …)\nexit 139\n', { kind: 'signal', signal: 'SIGSEGV' }],
    ['some warning\nexit 3\n', { kind: 'exit', code: 3 }],
    ['exit 3\nexit 0\n', { kind: 'exit', code: 0 }],
  ])('parses the end in %j', (text, ending) => {
    expect(parseEnding(text)).toEqual(ending)
  })

  it.each([
    '',
    'exit\n',
    'exit x\n',
    'exit 0 and more\n',
    'exit -1\n',
    ' exit 0\n',
    'exit 1000\n',
    'Killed\n',
  ])('finds no end in %j, and never reports success', (text) => {
    expect(parseEnding(text)).toEqual({ kind: 'unknown' })
  })

  it('quotes every value for the shell', () => {
    expect(releaseMessage({ A: `it's` })).toBe(`env\nexport A='it'\\''s'\n`)
    expect(releaseMessage({})).toBe('go\n')
  })
})
