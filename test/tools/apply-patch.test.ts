import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { patchPaths } from '../../runtime/kit/patch/parse-patch.ts'
import { MemoryToolbox } from '../fakes/memory-toolbox.ts'
import { callsOn, contentOf } from './tools-rig.ts'

const patchOf = (...sections: string[]) => ['*** Begin Patch', ...sections, '*** End Patch', ''].join('\n')
const UPDATE_A = '*** Update File: a.txt\n@@\n-one\n+ONE'
const ADD_B = '*** Add File: b.txt\n+two'
const DELETE_C = '*** Delete File: c.txt'
const MOVE_D = '*** Update File: d.txt\n*** Move to: moved/d.txt\n@@\n-four\n+FOUR'

const workspace = () =>
  new MemoryToolbox().put('a.txt', 'one\n').put('c.txt', 'three\n', 0o600).put('d.txt', 'four\n', 0o755)

const snapshot = (toolbox: MemoryToolbox) =>
  Object.fromEntries(
    [...toolbox.files].map(([path, { bytes, mode }]) => [path, [Buffer.from(bytes).toString(), mode]]),
  )

describe('apply_patch', () => {
  it('adds, updates, deletes and moves files in one call', async () => {
    const toolbox = workspace()

    const outcome = await callsOn(toolbox)('apply_patch', {
      patch: patchOf(UPDATE_A, ADD_B, DELETE_C, MOVE_D),
    })

    expect(contentOf(outcome)).toBe('Updated a.txt\nAdded b.txt\nDeleted c.txt\nMoved d.txt to moved/d.txt')
    expect(snapshot(toolbox)).toEqual({
      'a.txt': ['ONE\n', 0o644],
      'b.txt': ['two\n', 0o644],
      'moved/d.txt': ['FOUR\n', 0o755],
    })
  })

  it('applies a git diff to a file with CRLF', async () => {
    const toolbox = new MemoryToolbox().put('x.txt', 'a\r\nb\r\n')

    await callsOn(toolbox)('apply_patch', {
      patch: 'diff --git a/x.txt b/x.txt\n--- a/x.txt\n+++ b/x.txt\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n',
    })

    expect(toolbox.text('x.txt')).toBe('a\r\nB\r\n')
  })

  it.each([
    ['a hunk does not fit', [UPDATE_A, '*** Update File: c.txt\n@@\n-nine\n+x'], 'no_match'],
    ['a file is missing', [UPDATE_A, '*** Delete File: z.txt'], 'not_found'],
    ['a new file exists', [UPDATE_A, '*** Add File: c.txt\n+x'], 'exists'],
    ['the target of a move exists', [UPDATE_A, '*** Update File: d.txt\n*** Move to: c.txt'], 'exists'],
    ['a path leads outside', [UPDATE_A, '*** Add File: ../evil\n+x'], 'path_outside'],
    ['a move leads outside', [UPDATE_A, '*** Update File: d.txt\n*** Move to: ../evil'], 'path_outside'],
    ['the patch cannot be parsed', [UPDATE_A, 'nonsense'], 'invalid_patch'],
  ])('writes nothing if %s', async (_why, sections, code) => {
    const toolbox = workspace()
    const before = snapshot(toolbox)

    const outcome = await callsOn(toolbox)('apply_patch', { patch: patchOf(...sections) })

    expect(outcome).toMatchObject({ ok: false, code })
    expect(snapshot(toolbox)).toEqual(before)
    expect(toolbox.operations.filter(({ op }) => op === 'write' || op === 'delete')).toEqual([])
  })

  it.each([
    ['write b.txt', [UPDATE_A, DELETE_C, ADD_B]],
    ['delete c.txt', [UPDATE_A, ADD_B, MOVE_D, DELETE_C]],
    ['delete d.txt', [DELETE_C, ADD_B, UPDATE_A, MOVE_D]],
    ['write a.txt', [DELETE_C, MOVE_D, ADD_B, UPDATE_A]],
  ])('reverts everything if "%s" fails in the middle', async (step, sections) => {
    const toolbox = workspace()
    const before = snapshot(toolbox)
    toolbox.faults.set(step, 'io_error')

    const outcome = await callsOn(toolbox)('apply_patch', { patch: patchOf(...sections) })

    expect(outcome).toMatchObject({
      ok: false,
      code: 'io_error',
      message: expect.stringContaining('Nothing was changed'),
    })
    expect(snapshot(toolbox)).toEqual(before)
  })

  it('names files that could not be reverted', async () => {
    const toolbox = workspace()
    toolbox.faults.set('write b.txt', 'io_error').set('write c.txt', 'io_error')

    const outcome = await callsOn(toolbox)('apply_patch', { patch: patchOf(UPDATE_A, DELETE_C, ADD_B) })

    expect(outcome).toMatchObject({ message: expect.stringContaining('could not be restored: c.txt') })
    expect(toolbox.text('a.txt')).toBe('one\n')
  })

  it('moves a binary file and refuses to patch one', async () => {
    const bytes = Uint8Array.of(0xff, 0, 1)
    const toolbox = new MemoryToolbox().put('a.bin', bytes)
    const run = callsOn(toolbox)

    const patched = await run('apply_patch', { patch: patchOf('*** Update File: a.bin\n@@\n-x\n+y') })
    const moved = await run('apply_patch', { patch: patchOf('*** Update File: a.bin\n*** Move to: b.bin') })

    expect(patched).toMatchObject({ ok: false, code: 'binary' })
    expect(moved).toMatchObject({ ok: true })
    expect([...(toolbox.files.get('b.bin')?.bytes ?? [])]).toEqual([...bytes])
  })

  it('deletes a file by diff only if the diff shows its content', async () => {
    const toolbox = new MemoryToolbox().put('x.txt', 'a\nb\n')
    const diff = (lines: string, count: number) =>
      `diff --git a/x.txt b/x.txt\ndeleted file mode 100644\n--- a/x.txt\n+++ /dev/null\n@@ -1,${count} +0,0 @@\n${lines}`

    const partly = await callsOn(toolbox)('apply_patch', { patch: diff('-a\n', 1) })
    const wholly = await callsOn(toolbox)('apply_patch', { patch: diff('-a\n-b\n', 2) })

    expect(partly).toMatchObject({ ok: false, code: 'no_match' })
    expect(wholly).toMatchObject({ ok: true })
    expect(toolbox.files.size).toBe(0)
  })

  it('changes only paths that patchPaths reports to governance', async () => {
    const path = fc.constantFrom(
      'a.txt',
      'c.txt',
      './a.txt',
      '../evil',
      'x y',
      'a/b',
      '/dev/null',
      '*** a',
      'b/a.txt',
    )
    const section = fc.oneof(
      path.map((name) => `*** Add File: ${name}\n+x`),
      path.map((name) => `*** Delete File: ${name}`),
      fc
        .tuple(path, path)
        .map(([from, to]) => `*** Update File: ${from}\n*** Move to: ${to}\n@@\n-one\n+two`),
    )
    const diff = fc
      .tuple(
        path,
        path,
        fc.constantFrom('', 'rename from a.txt\nrename to ../evil\n', 'new file mode 100644\n'),
      )
      .map(
        ([from, to, header]) =>
          `diff --git a/x b/x\n${header}--- a/${from}\n+++ ${to}\n@@ -1 +1 @@\n-one\n+two\n`,
      )
    const patches = fc.oneof(
      fc.array(section, { minLength: 1, maxLength: 3 }).map((all) => patchOf(...all)),
      diff,
    )
    let applied = 0
    await fc.assert(
      fc.asyncProperty(patches, async (patch) => {
        const toolbox = workspace()
        const outcome = await callsOn(toolbox)('apply_patch', { patch })
        const named = patchPaths(patch)
        const touched = toolbox.operations.map((operation) => ('path' in operation ? operation.path : ''))
        expect(named.ok ? touched.filter((name) => !named.paths.includes(name)) : touched).toEqual([])
        if (outcome.ok) applied += 1
      }),
      { numRuns: 500 },
    )
    expect(applied).toBeGreaterThan(10)
  })
})
