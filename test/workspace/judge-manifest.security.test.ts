import { describe, expect, it } from 'vitest'
import { judgeManifest } from '../../runtime/workspace/snapshot/judge-manifest.ts'

const LIMITS = { maxEntries: 4, maxBytes: 100 }
const SHA = 'a'.repeat(64)

const file = (path: string, change: object = {}) => ({
  kind: 'file',
  path,
  mode: 0o644,
  mtime: 0,
  size: 1,
  sha256: SHA,
  ...change,
})
const folder = (path: string) => ({ kind: 'folder', path, mode: 0o755 })
const link = (path: string, target: string) => ({ kind: 'link', path, target })
const judge = (...entries: readonly unknown[]) => [
  ...judgeManifest(entries.map((entry) => `${JSON.stringify(entry)}\n`).join(''), LIMITS),
]

describe('a manifest from a sandbox', () => {
  it('is accepted if an archive of it could be unpacked', () => {
    const entries = [folder('a'), file('a/b'), file('a/c', { size: 1 }), link('a/d', '../a/b')]

    expect(judge(...entries)).toEqual(entries)
  })

  it.each<[string, readonly unknown[], string]>([
    ['a path above the root', [file('../x')], 'path_outside'],
    ['an absolute path', [file('/etc/passwd')], 'path_absolute'],
    ['a path with NUL', [file('a\0b')], 'path_nul'],
    ['a path that is not in its shortest form', [folder('a'), file('a//b')], 'denied'],
    ['the root itself', [folder('.')], 'denied'],
    ['one path twice', [file('a'), folder('a')], 'denied'],
    ['a file below a file', [file('a'), file('a/b')], 'denied'],
    ['a file below a link', [link('a', 'b'), file('a/b')], 'denied'],
    ['a file whose folder is not listed', [file('a/b')], 'denied'],
    ['a link that leads out', [link('a', '../b')], 'denied'],
    ['an absolute link', [link('a', '/etc')], 'denied'],
    ['one digest with two sizes', [file('a'), file('b', { size: 2 })], 'denied'],
    ['a set-user-ID file', [file('a', { mode: 0o4755 })], 'io_error'],
    ['a device', [{ kind: 'device', path: 'a' }], 'io_error'],
    ['an unknown key', [file('a', { owner: 0 })], 'io_error'],
    ['a digest that is none', [file('a', { sha256: '../../x' })], 'io_error'],
    ['a negative size', [file('a', { size: -1 })], 'io_error'],
    ['too many entries', ['a', 'b', 'c', 'd', 'e'].map((name) => folder(name)), 'too_large'],
    ['too many bytes', [file('a', { size: 101 })], 'too_large'],
  ])('is refused with %s', (_what, entries, code) => {
    expect(() => judge(...entries)).toThrow(expect.objectContaining({ code }))
  })

  it.each([
    ['an incomplete last line', JSON.stringify(file('a'))],
    ['a line that is too long', `${' '.repeat(70_000)}\n`],
    ['an empty line', '\n'],
  ])('is refused with %s', (_what, text) => {
    expect(() => [...judgeManifest(text, LIMITS)]).toThrow(expect.objectContaining({ code: 'io_error' }))
  })
})
