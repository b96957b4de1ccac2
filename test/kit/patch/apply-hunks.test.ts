import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { applyHunks } from '../../../runtime/kit/patch/apply-hunks.ts'
import { parsePatch } from '../../../runtime/kit/patch/parse-patch.ts'

const hunksOf = (patch: string) => {
  const parsed = parsePatch(patch)
  if (!parsed.ok) throw new Error(parsed.message)
  const [change] = parsed.changes
  if (change?.kind !== 'update') throw new Error('no update')
  return change.hunks
}
const unified = (hunks: string) => hunksOf(`--- a/x\n+++ b/x\n${hunks}`)
const begin = (hunks: string) => hunksOf(`*** Begin Patch\n*** Update File: x\n${hunks}\n*** End Patch\n`)

describe('applying hunks', () => {
  it('replaces lines at the place that the header names, and follows them when they moved', () => {
    const hunks = unified('@@ -2,2 +2,2 @@\n b\n-c\n+C\n')

    expect(applyHunks('a\nb\nc\nd\n', hunks)).toEqual({ ok: true, text: 'a\nb\nC\nd\n' })
    expect(applyHunks('0\n0\na\nb\nc\nd\n', hunks)).toEqual({ ok: true, text: '0\n0\na\nb\nC\nd\n' })
  })

  it('prefers the stated position if the lines occur twice, and refuses to guess another', () => {
    const hunks = unified('@@ -3 +3 @@\n-x\n+y\n')

    expect(applyHunks('x\na\nx\n', hunks)).toEqual({ ok: true, text: 'x\na\ny\n' })
    expect(applyHunks('x\nx\na\nb\n', hunks)).toMatchObject({
      ok: false,
      code: 'not_unique',
      message: expect.stringContaining('lines 1, 2'),
    })
  })

  it('reports the closest match of a hunk', () => {
    expect(applyHunks('a\nb\nX\nd\n', unified('@@ -1,3 +1,3 @@\n a\n b\n-c\n+C\n'))).toMatchObject({
      ok: false,
      code: 'no_match',
      message: expect.stringContaining('line 3 is not "c"'),
    })
  })

  it('matches context exactly: blanks count', () => {
    expect(applyHunks('\tindented\n', unified('@@ -1 +1 @@\n-  indented\n+x\n'))).toMatchObject({
      code: 'no_match',
    })
  })

  it('inserts if the hunk has no lines to match', () => {
    expect(applyHunks('a\nb\n', unified('@@ -1,0 +2,1 @@\n+new\n'))).toEqual({
      ok: true,
      text: 'a\nnew\nb\n',
    })
    expect(applyHunks('', unified('@@ -0,0 +1,1 @@\n+new\n'))).toEqual({ ok: true, text: 'new\n' })
    expect(applyHunks('a\n', unified('@@ -7,0 +8,1 @@\n+new\n'))).toMatchObject({
      ok: false,
      code: 'no_match',
    })
  })

  it('keeps CRLF line endings of the file, for any line endings in the patch', () => {
    const crlfPatch = '--- a/x\r\n+++ b/x\r\n@@ -1,2 +1,3 @@\r\n a\r\n-b\r\n+B\r\n+new\r\n'

    for (const hunks of [unified('@@ -1,2 +1,3 @@\n a\n-b\n+B\n+new\n'), hunksOf(crlfPatch)]) {
      expect(applyHunks('a\r\nb\r\nc\r\n', hunks)).toEqual({ ok: true, text: 'a\r\nB\r\nnew\r\nc\r\n' })
      expect(applyHunks('a\nb\nc\n', hunks)).toEqual({ ok: true, text: 'a\nB\nnew\nc\n' })
    }
  })

  it('keeps the terminators of lines that it does not change in a file that mixes them', () => {
    const hunks = unified('@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n')

    expect(applyHunks('a\r\nb\nc\nd\r\n', hunks)).toEqual({ ok: true, text: 'a\r\nB\nc\nd\r\n' })
  })

  const OPEN = '\\ No newline at end of file\n'

  it.each([
    { end: 'stays open without a marker', hunk: ' a\n-b\n+B\n', before: 'a\nb', after: 'a\nB' },
    { end: 'stays open', hunk: ` a\n-b\n${OPEN}+B\n${OPEN}`, before: 'a\nb', after: 'a\nB' },
    { end: 'is closed', hunk: ` a\n-b\n${OPEN}+B\n`, before: 'a\nb', after: 'a\nB\n' },
    { end: 'is opened', hunk: ` a\n-b\n+B\n${OPEN}`, before: 'a\nb\n', after: 'a\nB' },
  ])('the end of the file $end', ({ hunk, before, after }) => {
    expect(applyHunks(before, unified(`@@ -1,2 +1,2 @@\n${hunk}`))).toEqual({ ok: true, text: after })
  })

  it('closes a last line that others come after', () => {
    expect(applyHunks('a', unified('@@ -1 +1,2 @@\n a\n+b\n'))).toEqual({ ok: true, text: 'a\nb' })
  })

  it('refuses an old side that ends the file where the file goes on', () => {
    const hunks = unified('@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n')

    expect(applyHunks('a\nmore\n', hunks)).toMatchObject({ ok: false, code: 'no_match' })
  })

  it('finds lines after their anchors', () => {
    const text = 'class A\n  go()\n    return 1\nclass B\n  go()\n    return 1\n'

    expect(applyHunks(text, begin('@@ class B\n@@ go()\n-    return 1\n+    return 2'))).toEqual({
      ok: true,
      text: 'class A\n  go()\n    return 1\nclass B\n  go()\n    return 2\n',
    })
    expect(applyHunks(text, begin('@@\n-    return 1\n+    return 2'))).toMatchObject({ code: 'not_unique' })
    expect(applyHunks(text, begin('@@ class C\n-    return 1\n+    return 2'))).toMatchObject({
      code: 'no_match',
    })
  })

  it('takes the end of the file for a hunk that says so', () => {
    expect(applyHunks('x\na\nx\n', begin('@@\n-x\n+y\n*** End of File'))).toEqual({
      ok: true,
      text: 'x\na\ny\n',
    })
    expect(applyHunks('x\na\n', begin('@@\n-x\n+y\n*** End of File'))).toMatchObject({ code: 'no_match' })
  })

  it('applies hunks in order and never behind one another', () => {
    const both = unified('@@ -1 +1 @@\n-a\n+A\n@@ -3 +3 @@\n-c\n+C\n')
    const crossed = unified('@@ -3 +3 @@\n-c\n+C\n@@ -1 +1 @@\n-a\n+A\n')

    expect(applyHunks('a\nb\nc\n', both)).toEqual({ ok: true, text: 'A\nb\nC\n' })
    expect(applyHunks('a\nb\nc\n', crossed)).toMatchObject({
      ok: false,
      message: expect.stringContaining('hunk 2 of 2'),
    })
  })

  it('turns any text into any other by the diff that removes and adds all lines', () => {
    const texts = fc.array(fc.stringMatching(/^[a-c ]{0,3}$/), { minLength: 1, maxLength: 6 })
    fc.assert(
      fc.property(texts, texts, fc.constantFrom('\n', '\r\n'), (before, after, end) => {
        const removed = before.map((line) => `-${line}\n`).join('')
        const added = after.map((line) => `+${line}\n`).join('')
        const hunks = unified(`@@ -1,${before.length} +1,${after.length} @@\n${removed}${added}`)
        const textOf = (lines: string[]) => lines.map((line) => line + end).join('')
        expect(applyHunks(textOf(before), hunks)).toEqual({ ok: true, text: textOf(after) })
      }),
    )
  })
})
