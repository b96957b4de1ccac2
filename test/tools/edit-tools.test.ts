import { describe, expect, it } from 'vitest'
import { MemoryToolbox } from '../fakes/memory-toolbox.ts'
import { callsOn } from './tools-rig.ts'

const edit = (old_str: string, new_str: string, more = {}) => ({ path: 'a.txt', old_str, new_str, ...more })

describe.each(['str_replace_editor', 'edit'])('%s', (tool) => {
  it('replaces a text that occurs once, and inserts the new text literally', async () => {
    const toolbox = new MemoryToolbox().put('a.txt', 'one two three\n', 0o755)

    const outcome = await callsOn(toolbox)(tool, edit('two', '$& $1 $$'))

    expect(outcome).toMatchObject({ ok: true, facts: { replacements: 1 } })
    expect(toolbox.text('a.txt')).toBe('one $& $1 $$ three\n')
    expect(toolbox.files.get('a.txt')?.mode).toBe(0o755)
  })

  it.each([
    ['two', 'not_unique', '2 times'],
    ['ten', 'no_match', '0 matches'],
  ])('changes nothing if %j does not occur once, and reports the count', async (old, code, count) => {
    const toolbox = new MemoryToolbox().put('a.txt', 'one two two\n')

    const outcome = await callsOn(toolbox)(tool, edit(old, 'x'))

    expect(outcome).toMatchObject({ ok: false, code, message: expect.stringContaining(count) })
    expect(toolbox.text('a.txt')).toBe('one two two\n')
  })

  it('finds lines in a CRLF file and keeps its line ends', async () => {
    const toolbox = new MemoryToolbox().put('a.txt', '\uFEFFa\r\nb\r\nc\r\n')

    await callsOn(toolbox)(tool, edit('a\nb', 'A\nnew\nB'))

    expect(toolbox.text('a.txt')).toBe('\uFEFFA\r\nnew\r\nB\r\nc\r\n')
  })

  it.each([
    ['binary', Uint8Array.of(65, 0, 66), 'binary'],
    ['no UTF-8', Uint8Array.of(65, 0xe9, 66), 'binary'],
  ])('does not change a file that is %s', async (_what, bytes, code) => {
    const toolbox = new MemoryToolbox().put('a.txt', bytes)

    expect(await callsOn(toolbox)(tool, edit('A', 'x'))).toMatchObject({ ok: false, code })
    expect(toolbox.files.get('a.txt')?.bytes).toEqual(bytes)
  })

  it('reports a missing file', async () => {
    expect(await callsOn(new MemoryToolbox())(tool, edit('a', 'b'))).toMatchObject({ code: 'not_found' })
  })
})

describe('edit', () => {
  it('replaces every occurrence with replace_all', async () => {
    const toolbox = new MemoryToolbox().put('a.txt', 'x y x y x')

    const outcome = await callsOn(toolbox)('edit', edit('x', 'z', { replace_all: true }))

    expect(outcome).toMatchObject({ ok: true, facts: { replacements: 3 } })
    expect(toolbox.text('a.txt')).toBe('z y z y z')
  })
})

describe('create', () => {
  it('writes a new file and never overwrites one', async () => {
    const toolbox = new MemoryToolbox()
    const run = callsOn(toolbox)

    const made = await run('create', { path: 'src/a.txt', file_text: 'first' })
    const again = await run('create', { path: 'src/a.txt', file_text: 'second' })

    expect(made).toMatchObject({ ok: true })
    expect(again).toMatchObject({ ok: false, code: 'exists', message: expect.stringContaining('edit') })
    expect(toolbox.text('src/a.txt')).toBe('first')
  })
})
