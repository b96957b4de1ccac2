import { describe, expect, it } from 'vitest'
import type { FileResult } from '../../contracts/files.ts'
import { MemoryToolbox } from '../fakes/memory-toolbox.ts'
import { callsOn, contentOf } from './tools-rig.ts'

function searching(result: FileResult) {
  const toolbox = new MemoryToolbox()
  toolbox.file = async (operation) => {
    toolbox.operations.push(operation)
    return { result, payload: new Uint8Array() }
  }
  return toolbox
}

describe('grep_search', () => {
  it('returns the position of matches', async () => {
    const toolbox = searching({ ok: true, matches: [{ path: 'a.ts', line: 3, text: 'const x' }] })

    const outcome = await callsOn(toolbox)('grep_search', {
      pattern: 'x',
      is_regex: true,
      include_pattern: '*.ts',
      max_results: 7,
    })

    expect(contentOf(outcome)).toBe('a.ts:3: const x')
    expect(toolbox.operations).toEqual([
      { op: 'grep', pattern: 'x', isRegex: true, include: '*.ts', maxResults: 7 },
    ])
  })

  it('treats the pattern as plain text by default', async () => {
    const toolbox = searching({ ok: true, matches: [] })

    const outcome = await callsOn(toolbox)('grep_search', { pattern: 'a.b' })

    expect(contentOf(outcome)).toBe('Nothing matches.')
    expect(toolbox.operations).toEqual([{ op: 'grep', pattern: 'a.b', isRegex: false }])
  })

  it('forwards a pattern that the engine rejected', async () => {
    const toolbox = searching({ ok: false, code: 'invalid_pattern', message: 'missing )' })

    expect(await callsOn(toolbox)('grep_search', { pattern: '(', is_regex: true })).toEqual({
      ok: false,
      code: 'invalid_pattern',
      message: 'missing )',
    })
  })
})

describe('file_search', () => {
  it('lists paths and reports if there are more', async () => {
    const toolbox = searching({ ok: true, paths: ['a.ts', 'b.ts'], truncated: true })

    const outcome = await callsOn(toolbox)('file_search', { pattern: '**/*.ts', max_results: 2 })

    expect(contentOf(outcome)).toMatch(/^a\.ts\nb\.ts\n\[… there are more/)
    expect(outcome).toMatchObject({ facts: { results: 2, truncated: true } })
  })
})
