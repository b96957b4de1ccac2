import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import { applyHunks } from '../../../runtime/kit/patch/apply-hunks.ts'
import { parsePatch } from '../../../runtime/kit/patch/parse-patch.ts'

const folder = mkdtempSync(join(tmpdir(), 'patch-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** Returns git's diff of two texts. git exits with 1 if they differ. */
function gitDiff(before: string, after: string, context: number): string {
  writeFileSync(join(folder, 'before'), before)
  writeFileSync(join(folder, 'after'), after)
  try {
    const args = ['diff', '--no-index', '--no-color', `-U${context}`, 'before', 'after']
    return execFileSync('git', args, { cwd: folder, encoding: 'utf8', env: { PATH: process.env['PATH'] } })
  } catch (error) {
    if (error instanceof Error && 'stdout' in error && 'status' in error && error.status === 1)
      return String(error.stdout)
    throw error
  }
}

const text = fc
  .tuple(
    fc.array(fc.constantFrom('a', 'b', 'c', '', '-- x', '++ y', '@@ -1 +1 @@', '\\ z', '*** End Patch'), {
      maxLength: 12,
    }),
    fc.constantFrom('\n', '\r\n'),
    fc.boolean(),
  )
  .map(([lines, end, isOpen]) => (isOpen ? lines.join(end) : lines.map((line) => line + end).join('')))

describe('a diff that git made', () => {
  it('turns the old text into the new one, byte for byte', () => {
    fc.assert(
      fc.property(text, text, fc.constantFrom(0, 1, 3), (before, after, context) => {
        fc.pre(before !== after && before !== '' && after !== '')
        fc.pre(before.includes('\r\n') === after.includes('\r\n'))
        const diff = gitDiff(before, after, context).replaceAll('b/after', 'b/before')
        const parsed = parsePatch(diff)
        const [change] = parsed.ok ? parsed.changes : []
        expect(change).toMatchObject({ kind: 'update', path: 'before' })
        if (change?.kind !== 'update') return
        expect(applyHunks(before, change.hunks)).toEqual({ ok: true, text: after })
      }),
      { numRuns: 150 },
    )
  })
})
