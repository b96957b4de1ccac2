import { lstatSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { staysInside } from '../../runtime/workspace/archive/link-target.ts'
import { unpackWorkspace } from '../../runtime/workspace/archive/unpack.ts'
import { anArchive, ENOUGH, type Member } from './archive-fixture.ts'
import { aWorkspace, SECRET } from './workspace-fixture.ts'

const link = (name: string, linkname: string): Member => ({ name, type: 'symlink', linkname })
const hardLink = (name: string, linkname: string): Member => ({ name, type: 'link', linkname })
const file = (name: string, content = 'evil'): Member => ({ name, content })

const HOSTILE: readonly [string, readonly Member[], string][] = [
  ['an absolute name', [file('/etc/cron.d/x')], 'path_absolute'],
  ['a name that climbs', [file('../outside/secret.txt')], 'path_outside'],
  ['a name that climbs later', [file('a/../../outside/secret.txt')], 'path_outside'],
  ['a name of a Windows device', [file('\\\\.\\C:')], 'path_device'],
  ['a name with a drive', [file('C:/x')], 'path_absolute'],
  ['a link to an absolute path', [link('l', '/etc')], 'path_outside'],
  ['a link that climbs out', [link('a/l', '../../outside')], 'path_outside'],
  ['a link that climbs behind another', [link('a/up', '..'), link('e', 'a/up/../outside')], 'path_outside'],
  ['a file written through a link', [link('l', 'd'), file('d/x'), file('l/y')], 'symlink'],
  ['a folder made through a link', [link('l', 'd'), { name: 'l/y/', type: 'directory' }], 'symlink'],
  ['a folder in place of a link', [link('l', 'd'), { name: 'l/', type: 'directory' }], 'symlink'],
  ['a file in place of a link', [link('l', 'd'), file('l')], 'exists'],
  ['a link in place of a file', [file('f'), link('f', 'd')], 'exists'],
  ['a link in place of a folder', [{ name: 'd/', type: 'directory' }, link('d', 'e')], 'exists'],
  ['a file twice', [file('f', 'one'), file('./f', 'two')], 'exists'],
  ['a hard link to the outside', [hardLink('h', '../outside/secret.txt')], 'path_outside'],
  ['a hard link to an absolute path', [hardLink('h', '/etc/passwd')], 'path_absolute'],
  ['a hard link through a link', [link('l', 'd'), hardLink('h', 'l')], 'symlink'],
  ['a hard link to nothing', [hardLink('h', 'none')], 'not_found'],
  ['a device', [{ name: 'dev', type: 'character-device', devmajor: 1, devminor: 3 }], 'special_file'],
  ['a block device', [{ name: 'dev', type: 'block-device', devmajor: 8, devminor: 0 }], 'special_file'],
  ['a FIFO', [{ name: 'p', type: 'fifo' }], 'special_file'],
  ['the root as a file', [file('./')], 'denied'],
]

describe('a hostile archive', () => {
  it.each(HOSTILE)('is refused by name for %s', async (_title, members, code) => {
    const { workspace, outside, root } = await aWorkspace()
    const tar = await anArchive([file('innocent', 'fine'), ...members])

    const unpacking = unpackWorkspace(workspace, chunksOf(tar), { limits: ENOUGH })

    await expect(unpacking).rejects.toMatchObject({ code, message: expect.stringMatching(/^member "/) })
    expect(readdirSync(outside)).toEqual(['secret.txt'])
    expect(readFileSync(join(outside, 'secret.txt'), 'utf8')).toBe(SECRET)
    expect(readFileSync(join(root, 'innocent'), 'utf8'), 'what came before it is there').toBe('fine')
  })

  it('is not helped by a link that lay in the workspace before', async () => {
    const { workspace, root, outside } = await aWorkspace()
    symlinkSync(outside, join(root, 'd'))

    const unpacking = unpackWorkspace(workspace, chunksOf(await anArchive([file('d/secret.txt')])), {
      limits: ENOUGH,
    })

    await expect(unpacking).rejects.toMatchObject({ code: 'symlink' })
    writeFileSync(join(root, 'd/secret.txt'), 'control')
    expect(readFileSync(join(outside, 'secret.txt'), 'utf8'), 'the link does lead there').toBe('control')
  })

  it('loses set-uid, set-gid and sticky bits', async () => {
    const { workspace, root } = await aWorkspace()
    const tar = await anArchive([
      { name: 'su', content: 'x', mode: 0o6755 },
      { name: 'd/', type: 'directory', mode: 0o7777 },
    ])

    await unpackWorkspace(workspace, chunksOf(tar), { limits: ENOUGH })

    expect(statSync(join(root, 'su')).mode & 0o7777).toBe(0o755)
    expect(statSync(join(root, 'd')).mode & 0o7777).toBe(0o777)
  })

  it.each([
    ['too many members', { maxEntries: 2, maxBytes: 1000 }],
    ['too many bytes', { maxEntries: 10, maxBytes: 25 }],
  ])('is stopped at %s', async (_title, limits) => {
    const { workspace, root } = await aWorkspace()
    const tar = await anArchive([
      file('a', 'x'.repeat(10)),
      file('b', 'x'.repeat(10)),
      file('c', 'x'.repeat(10)),
    ])

    const unpacking = unpackWorkspace(workspace, chunksOf(tar), { limits })

    await expect(unpacking).rejects.toMatchObject({
      code: 'too_large',
      message: expect.stringContaining('"c"'),
    })
    expect(readdirSync(root).sort()).toEqual(['a', 'b'])
  })

  it('cannot multiply a file by hard links beyond the limit', async () => {
    const { workspace } = await aWorkspace()
    const tar = await anArchive([file('a', 'x'.repeat(60)), hardLink('b', 'a')])

    const unpacking = unpackWorkspace(workspace, chunksOf(tar), { limits: { maxEntries: 10, maxBytes: 100 } })

    await expect(unpacking).rejects.toMatchObject({
      code: 'too_large',
      message: expect.stringContaining('"b"'),
    })
  })

  it('is stopped when it is endless padding', async () => {
    const { workspace } = await aWorkspace()
    const endless = async function* () {
      for (;;) yield Buffer.alloc(65_536)
    }

    const unpacking = unpackWorkspace(workspace, endless(), { limits: { maxEntries: 10, maxBytes: 1000 } })

    await expect(unpacking).rejects.toMatchObject({ code: 'too_large' })
  })

  it('leaves no half file behind', async () => {
    const { workspace, root } = await aWorkspace()
    const tar = await anArchive([file('half', 'x'.repeat(100_000))])

    await expect(
      unpackWorkspace(workspace, chunksOf(tar.subarray(0, 50_000)), { limits: ENOUGH }),
    ).rejects.toThrow()

    expect(lstatSync(join(root, 'half'), { throwIfNoEntry: false })).toBeUndefined()
  })
})

describe('the target of a link', () => {
  it.each([
    ['x', 0, true],
    ['a/b/../c', 5, false],
    ['../x', 1, true],
    ['../x', 0, false],
    ['../../x', 1, false],
    ['..', 1, true],
    ['..', 0, false],
    ['./../x', 1, true],
    ['/x', 3, false],
    ['', 3, false],
    ['C:x', 3, false],
    ['..\\..\\x', 0, false],
  ])('%j, %i folders deep, stays inside: %s', (target, depth, expected) => {
    expect(staysInside(target, depth)).toBe(expected)
  })

  it('never climbs above the root when it is taken as inside', () => {
    const steps = fc.array(fc.constantFrom('..', '.', 'a', '', 'b'), { maxLength: 8 })
    fc.assert(
      fc.property(steps, fc.nat(4), (parts, depth) => {
        if (!staysInside(parts.join('/'), depth)) return
        expect(lowestLevel(parts, depth)).toBeGreaterThanOrEqual(0)
      }),
    )
  })
})

function lowestLevel(parts: readonly string[], depth: number): number {
  const change = (part: string) => (part === '..' ? -1 : part === '' || part === '.' ? 0 : 1)
  const levels = parts.map((_, index) =>
    parts.slice(0, index + 1).reduce((sum, part) => sum + change(part), depth),
  )
  return Math.min(depth, ...levels)
}

async function* chunksOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += 4096) yield bytes.subarray(at, at + 4096)
}
