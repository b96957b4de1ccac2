import { describe, expect, it } from 'vitest'
import { parsePatch, patchPaths } from '../../../runtime/kit/patch/parse-patch.ts'

const GIT = `diff --git a/src/a.ts b/src/a.ts
index 111..222 100644
--- a/src/a.ts
+++ b/src/a.ts
@@ -1,2 +1,2 @@ function a
 keep
-old
+new
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
index 111..000
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-last words
diff --git a/new file.sh b/new file.sh
new file mode 100755
index 000..111
--- /dev/null
+++ b/new file.sh
@@ -0,0 +1 @@
+#!/bin/sh
\\ No newline at end of file
diff --git a/from.txt b/to.txt
similarity index 100%
rename from from.txt
rename to to.txt
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
diff --git a/empty b/empty
new file mode 100644
index 000..e69
`

const BEGIN = `*** Begin Patch
*** Add File: docs/new.md
+# Title
+
*** Update File: src/a.ts
*** Move to: src/b.ts
@@ class A
@@   method()
 keep
-old
+new
@@
-tail
*** End of File
*** Delete File: gone.txt
*** End Patch
`

describe('a patch', () => {
  it('is read from a git diff with all its kinds of change', () => {
    const parsed = parsePatch(GIT)

    expect(parsed.ok && parsed.changes).toMatchObject([
      { kind: 'update', path: 'src/a.ts', hunks: [{ oldStart: 1 }] },
      { kind: 'delete', path: 'gone.txt' },
      { kind: 'add', path: 'new file.sh', content: '#!/bin/sh', mode: 0o755 },
      { kind: 'update', path: 'from.txt', movedTo: 'to.txt', hunks: [] },
      { kind: 'update', path: 'run.sh', mode: 0o755, hunks: [] },
      { kind: 'add', path: 'empty', content: '' },
    ])
  })

  it('is read from the Begin Patch form into the same model', () => {
    const parsed = parsePatch(BEGIN)

    expect(parsed.ok && parsed.changes).toMatchObject([
      { kind: 'add', path: 'docs/new.md', content: '# Title\n\n' },
      {
        kind: 'update',
        path: 'src/a.ts',
        movedTo: 'src/b.ts',
        hunks: [
          { anchors: ['class A', 'method()'], atEnd: false },
          { anchors: [], atEnd: true },
        ],
      },
      { kind: 'delete', path: 'gone.txt' },
    ])
  })

  it('names every path that it touches, targets of moves too', () => {
    expect(patchPaths(BEGIN)).toEqual({
      ok: true,
      paths: ['docs/new.md', 'src/a.ts', 'src/b.ts', 'gone.txt'],
    })
    expect(patchPaths(GIT)).toMatchObject({
      paths: ['src/a.ts', 'gone.txt', 'new file.sh', 'from.txt', 'to.txt', 'run.sh', 'empty'],
    })
  })

  it.each([
    ['--- a/x\n+++ b/x\n', 'x'],
    ['--- x\n+++ x\n', 'x'],
    ['--- a/x\t2026-01-01 00:00:00\n+++ b/x\t2026-01-01 00:00:00\n', 'x'],
    ['--- "a/caf\\303\\251 \\"q\\""\n+++ "b/caf\\303\\251 \\"q\\""\n', 'café "q"'],
    ['--- ../../etc/passwd\n+++ ../../etc/passwd\n', '../../etc/passwd'],
    ['--- /etc/passwd\n+++ /etc/passwd\n', '/etc/passwd'],
    ['--- a/../x\n+++ b/../x\n', '../x'],
  ])('has the path that its header %j spells', (header, path) => {
    expect(patchPaths(`${header}@@ -1 +1 @@\n-a\n+b\n`)).toEqual({ ok: true, paths: [path] })
  })

  it.each([
    ['nothing', '', 'changes nothing'],
    ['prose', 'Here is the patch:\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n', 'line 1'],
    ['wrong counts', '--- a/x\n+++ b/x\n@@ -1,2 +1,1 @@\n-a\n+b\n', 'counts'],
    ['counts that are too small', '--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n+c\n', 'counts'],
    ['an end that is missing', '*** Begin Patch\n*** Add File: a\n+x\n', 'End Patch'],
    [
      'text after its end',
      '*** Begin Patch\n*** Delete File: a\n*** End Patch\nmore\n',
      'nothing may follow',
    ],
    ['a file header without a path', '*** Begin Patch\n*** Delete File: \n*** End Patch\n', 'without a path'],
    ['an update without a change', '*** Begin Patch\n*** Update File: a\n*** End Patch\n', 'no change'],
    ['an added file with context', '*** Begin Patch\n*** Add File: a\n x\n*** End Patch\n', '"+"'],
    ['a binary part', 'diff --git a/x b/x\nGIT binary patch\nliteral 1\n', 'binary'],
    ['a copy', 'diff --git a/x b/y\ncopy from x\ncopy to y\n', 'copies'],
    [
      'a symlink',
      'diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+/etc\n',
      '120000',
    ],
    ['a rename without a declaration', '--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n', 'rename from'],
    [
      'one file twice',
      '*** Begin Patch\n*** Delete File: a/b\n*** Delete File: a/./b\n*** End Patch\n',
      'twice',
    ],
    ['no names', '--- /dev/null\n+++ /dev/null\n@@ -0,0 +1 @@\n+x\n', '/dev/null'],
  ])('is refused when it has %s', (_what, patch, message) => {
    const parsed = parsePatch(patch)

    expect(parsed).toMatchObject({ ok: false, message: expect.stringContaining(message) })
    expect(patchPaths(patch).ok).toBe(false)
  })
})
