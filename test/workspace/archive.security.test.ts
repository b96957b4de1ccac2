import { lstatSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { staysInside } from '../../runtime/workspace/archive/link-target.ts'
import { unpackWorkspace } from '../../runtime/workspace/archive/unpack.ts'
import { anArchive, ENOUGH } from './archive-fixture.ts'
import { file, HOSTILE_ARCHIVES, hardLink } from './hostile-archives.ts'
import { aWorkspace, SECRET } from './workspace-fixture.ts'

describe('a hostile archive', () => {
  it.each(HOSTILE_ARCHIVES)('is rejected by name for %s', async (_title, members, code) => {
    const { workspace, outside, root } = await aWorkspace()
    const tar = await anArchive([file('innocent', 'fine'), ...members])

    const unpacking = unpackWorkspace(workspace, chunksOf(tar), { limits: ENOUGH })

    await expect(unpacking).rejects.toMatchObject({ code, message: expect.stringMatching(/^member "/) })
    expect(readdirSync(outside)).toEqual(['secret.txt'])
    expect(readFileSync(join(outside, 'secret.txt'), 'utf8')).toBe(SECRET)
    expect(readFileSync(join(root, 'innocent'), 'utf8'), 'what came before it is there').toBe('fine')
  })

  it('cannot use a link that already exists in the workspace', async () => {
    const { workspace, root, outside } = await aWorkspace()
    symlinkSync(outside, join(root, 'd'))

    const unpacking = unpackWorkspace(workspace, chunksOf(await anArchive([file('d/secret.txt')])), {
      limits: ENOUGH,
    })

    await expect(unpacking).rejects.toMatchObject({ code: 'symlink' })
    writeFileSync(join(root, 'd/secret.txt'), 'control')
    expect(readFileSync(join(outside, 'secret.txt'), 'utf8'), 'the link does lead there').toBe('control')
  })

  it('loses set-user-ID, set-group-ID and sticky bits', async () => {
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
    ['too many entries', { maxEntries: 2, maxBytes: 1000 }],
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

  it('is stopped if it is endless padding', async () => {
    const { workspace } = await aWorkspace()
    const endless = async function* () {
      for (;;) yield Buffer.alloc(65_536)
    }

    const unpacking = unpackWorkspace(workspace, endless(), { limits: { maxEntries: 10, maxBytes: 1000 } })

    await expect(unpacking).rejects.toMatchObject({ code: 'too_large' })
  })

  it('leaves no partial file behind', async () => {
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

  it('never climbs above the root if it is accepted', () => {
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
