import { describe, expect, it } from 'vitest'
import { READ_LIMITS } from '../../runtime/tools/read-file.ts'
import { MemoryToolbox } from '../fakes/memory-toolbox.ts'
import { callsOn, contentOf } from './tools-rig.ts'

const lines = (count: number) => Array.from({ length: count }, (_, index) => `line ${index + 1}\n`).join('')

describe('read_file', () => {
  it('numbers the lines of a file', async () => {
    const toolbox = new MemoryToolbox().put('a.txt', 'one\r\ntwo\n\nfour')

    const outcome = await callsOn(toolbox)('read_file', { path: 'a.txt' })

    expect(contentOf(outcome)).toBe('1\tone\n2\ttwo\n3\t\n4\tfour')
    expect(outcome).toMatchObject({ facts: { lines: 4, truncated: false } })
  })

  it('returns the requested lines, inclusive', async () => {
    const run = callsOn(new MemoryToolbox().put('a.txt', lines(10)))

    expect(contentOf(await run('read_file', { path: 'a.txt', start_line: 4, end_line: 5 }))).toBe(
      '4\tline 4\n5\tline 5',
    )
    expect(contentOf(await run('read_file', { path: 'a.txt', start_line: 9, end_line: 99 }))).toBe(
      '9\tline 9\n10\tline 10',
    )
  })

  it.each([
    [{ start_line: 11 }, /10 lines/],
    [{ start_line: 5, end_line: 4 }, /before/],
  ])('reports what is wrong with the range %j', async (range, message) => {
    const run = callsOn(new MemoryToolbox().put('a.txt', lines(10)))

    expect(await run('read_file', { path: 'a.txt', ...range })).toMatchObject({
      ok: false,
      code: 'invalid_range',
      message: expect.stringMatching(message),
    })
  })

  it('stops after the maximum number of lines and reports where to continue', async () => {
    const run = callsOn(new MemoryToolbox().put('a.txt', lines(READ_LIMITS.maxLines + 5)))

    const outcome = await run('read_file', { path: 'a.txt' })

    expect(contentOf(outcome)).toContain(`go on with start_line ${READ_LIMITS.maxLines + 1}`)
    expect(outcome).toMatchObject({ facts: { truncated: true, lastLine: READ_LIMITS.maxLines } })
  })

  it('limits long lines and the whole result', async () => {
    const run = callsOn(new MemoryToolbox().put('a.txt', `${'x'.repeat(50_000)}\n`.repeat(200)))

    const content = contentOf(await run('read_file', { path: 'a.txt' }))

    expect(content).toContain('48000 characters left out')
    expect(content.length).toBeLessThan(READ_LIMITS.maxCharacters * 1.1)
  })

  it('rejects a binary file', async () => {
    const run = callsOn(new MemoryToolbox().put('a.bin', Uint8Array.of(1, 0, 2)))

    expect(await run('read_file', { path: 'a.bin' })).toMatchObject({ ok: false, code: 'binary' })
  })

  it('forwards errors of the workspace', async () => {
    expect(await callsOn(new MemoryToolbox())('read_file', { path: '../etc/passwd' })).toMatchObject({
      ok: false,
      code: 'path_outside',
    })
  })

  it('filters before it truncates, so that no cut hides a secret from the filter', async () => {
    const secret = 'S'.repeat(64)
    const path = 'a.txt'
    const toolbox = new MemoryToolbox().put(
      path,
      `${'x'.repeat(READ_LIMITS.maxLineCharacters - 10)}${secret}`,
    )
    const openFilter = () => {
      let text = ''
      return {
        push: (bytes: Uint8Array) => {
          text += Buffer.from(bytes).toString()
          return ''
        },
        end: () => text.replaceAll(secret, '[secret]'),
      }
    }

    const plain = contentOf(await callsOn(toolbox)('read_file', { path }))
    const filtered = contentOf(await callsOn(toolbox, { openFilter })('read_file', { path }))

    expect(plain).toContain('SSSSSSSSSS')
    expect(filtered).not.toContain('S')
    expect(filtered).toContain('[secret]')
  })
})
