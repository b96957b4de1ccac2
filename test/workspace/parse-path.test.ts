import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { FileErrorCode } from '../../contracts/files.ts'
import { FileFault } from '../../runtime/workspace/file-fault.ts'
import { parseMemberName, parsePath } from '../../runtime/workspace/parse-path.ts'

const REFUSED: readonly [string, FileErrorCode][] = [
  ['', 'path_empty'],
  ['a\0b', 'path_nul'],
  ['\0', 'path_nul'],
  ['a\ud800b', 'denied'],
  ['/', 'path_absolute'],
  ['/etc/passwd', 'path_absolute'],
  ['//server/share', 'path_absolute'],
  ['\\', 'path_absolute'],
  ['\\Windows', 'path_absolute'],
  ['\\\\server\\share\\x', 'path_absolute'],
  ['\\\\?\\C:\\x', 'path_device'],
  ['\\\\?\\UNC\\server\\share', 'path_device'],
  ['\\\\.\\PhysicalDrive0', 'path_device'],
  ['\\\\.\\pipe\\x', 'path_device'],
  ['//?/C:/x', 'path_device'],
  ['//./COM1', 'path_device'],
  ['/\\?\\x', 'path_device'],
  ['\\??\\C:\\x', 'path_device'],
  ['C:\\x', 'path_absolute'],
  ['C:/x', 'path_absolute'],
  ['c:', 'path_absolute'],
  ['C:foo', 'path_device'],
  ['C:..\\foo', 'path_device'],
  ['..', 'path_outside'],
  ['../x', 'path_outside'],
  ['a/../b', 'path_outside'],
  ['a/..', 'path_outside'],
  ['./../x', 'path_outside'],
  ['a//../../b', 'path_outside'],
  ['..\\x', 'path_outside'],
  ['a\\..\\..\\b', 'path_outside'],
  ['a/..\\b', 'path_outside'],
  ['file.txt:stream', 'path_stream'],
  ['file.txt::$DATA', 'path_stream'],
  ['folder:$I30:$INDEX_ALLOCATION/x', 'path_stream'],
  ['a/b:c/d', 'path_stream'],
  ['x'.repeat(256), 'path_too_long'],
  [`${'é'.repeat(128)}`, 'path_too_long'],
  [`a/${'x/'.repeat(2100)}`, 'path_too_long'],
]

const ACCEPTED: readonly [string, string][] = [
  ['.', '.'],
  ['./', '.'],
  ['a', 'a'],
  ['a/b.txt', 'a/b.txt'],
  ['./a//b/./c/', 'a/b/c'],
  ['...', '...'],
  ['..a/b..', '..a/b..'],
  [' ', ' '],
  ['a\\b', 'a\\b'],
  ['-rf', '-rf'],
  ['~/.ssh', '~/.ssh'],
  ['%2e%2e/x', '%2e%2e/x'],
  ['\u202etxt', '\u202etxt'],
  ['x'.repeat(255), 'x'.repeat(255)],
]

const outcomeOf = (parse: typeof parsePath, text: string): string => {
  try {
    return parse(text).text
  } catch (error) {
    if (error instanceof FileFault) return error.code
    throw error
  }
}

describe('path spelling', () => {
  it.each(REFUSED)('rejects %j as %s', (text, code) => {
    expect(() => parsePath(text)).toThrow(FileFault)
    expect(outcomeOf(parsePath, text)).toBe(code)
  })

  it.each(ACCEPTED)('parses %j as %j', (text, normalised) => {
    expect(outcomeOf(parsePath, text)).toBe(normalised)
  })

  it('allows a colon in the name of an archive entry, but no drive', () => {
    expect(outcomeOf(parseMemberName, 'logs/10:30.txt')).toBe('logs/10:30.txt')
    expect(outcomeOf(parseMemberName, 'C:foo')).toBe('path_device')
    expect(outcomeOf(parseMemberName, '../x')).toBe('path_outside')
  })

  it('yields a list of plain names for every accepted string', () => {
    fc.assert(
      fc.property(hostilePath(), (text) => {
        const parsed = outcomeOf(parsePath, text)
        if (REFUSED.some(([, code]) => code === parsed)) return

        const names = parsePath(text).names

        expect(names.every((name) => name !== '' && name !== '.' && name !== '..')).toBe(true)
        expect(names.join('')).not.toMatch(/[/\0:]/)
      }),
      { numRuns: 2000 },
    )
  })

  it('parses its own normal form to itself', () => {
    fc.assert(
      fc.property(hostilePath(), (text) => {
        const once = outcomeOf(parsePath, text)
        if (once.startsWith('path_') || once === 'denied') return
        expect(parsePath(once).text).toBe(once)
      }),
    )
  })
})

/** Strings built from the pieces of path attacks. */
function hostilePath(): fc.Arbitrary<string> {
  const pieces = ['..', '.', '/', '\\', '//', 'a', 'C:', ':', '\0', '\\\\?\\', '%2e', '\u202e', '\ud800', ' ']
  return fc
    .array(fc.oneof(fc.constantFrom(...pieces), fc.string({ unit: 'binary', maxLength: 4 })))
    .map((list) => list.join(''))
}
