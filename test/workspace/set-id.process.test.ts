import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  closeSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Root } from '../../runtime/workspace/engines/path-engine.ts'
import { openRoot } from '../../runtime/workspace/open-root.ts'
import { clearSetId, surveySetId } from '../../runtime/workspace/set-id.ts'

describe('set-user-ID and set-group-ID bits in a workspace', () => {
  let above: string
  let workspace: string
  let root: Root

  beforeEach(() => {
    above = mkdtempSync(join(tmpdir(), 'agentweaver-set-id-'))
    workspace = join(above, 'workspace')
    mkdirSync(join(workspace, 'folder'), { recursive: true })
    root = openRoot(workspace)
  })
  afterEach(() => {
    closeSync(root.fd)
    // Node cannot delete paths that are too long.
    execFileSync('rm', ['-rf', above])
  })

  function aFile(path: string, mode: number): string {
    const at = join(workspace, path)
    writeFileSync(at, 'content')
    chmodSync(at, mode)
    return at
  }
  const modeOf = (path: string) => statSync(path).mode & 0o7777
  const survey = () => surveySetId(root, new AbortController().signal)
  const bitsOf = (path: string) => modeOf(path) & 0o6000

  it('are cleared from files and kept on folders', async () => {
    const known = await survey()
    const files = [aFile('user', 0o4755), aFile('folder/group', 0o2755), aFile('both', 0o7600)]
    chmodSync(join(workspace, 'folder'), 0o2775)

    const cleared = await clearSetId(root, known)

    expect(files.map(modeOf)).toEqual([0o755, 0o755, 0o1600])
    expect(modeOf(join(workspace, 'folder'))).toBe(0o2775)
    expect(cleared.sort()).toEqual(['./both', './folder/group', './user'])
    expect(await clearSetId(root, known)).toEqual([])
  })

  it('are kept on a file that had them before and is unchanged', async () => {
    const [kept, changed, moved] = [aFile('kept', 0o4755), aFile('changed', 0o4755), aFile('moved', 0o2755)]
    const known = await survey()

    writeFileSync(changed, 'other content')
    chmodSync(changed, 0o4755)
    execFileSync('mv', [moved, join(workspace, 'folder/elsewhere')])
    const cleared = await clearSetId(root, known)

    expect(bitsOf(kept)).toBe(0o4000)
    expect(cleared.sort()).toEqual(['./changed', './folder/elsewhere'])
  })

  it('are cleared through every name of a file, but not through a link', async () => {
    const known = await survey()
    const outside = join(above, 'outside')
    mkdirSync(outside)
    writeFileSync(join(outside, 'file'), '')
    chmodSync(join(outside, 'file'), 0o4755)
    symlinkSync(join(outside, 'file'), join(workspace, 'link'))
    symlinkSync(outside, join(workspace, 'linked'))
    linkSync(aFile('one', 0o4755), join(workspace, 'folder/other'))

    const cleared = await clearSetId(root, known)

    expect(bitsOf(join(outside, 'file'))).toBe(0o4000)
    expect(bitsOf(join(workspace, 'folder/other'))).toBe(0)
    expect(cleared).toHaveLength(1)
  })

  it('are found below names that are not UTF-8 and paths longer than PATH_MAX', async () => {
    const known = await survey()
    const strange = Buffer.concat([Buffer.from(`${workspace}/`), Buffer.from([0xff, 0xfe])])
    writeFileSync(strange, '')
    chmodSync(strange, 0o4755)
    const chain = (name: string) => Array<string>(15).fill(name.repeat(200)).join('/')
    for (const name of ['a', 'b']) mkdirSync(join(workspace, chain(name)), { recursive: true })
    aFile(`${chain('b')}/deep`, 0o4755)
    renameSync(join(workspace, 'b'.repeat(200)), join(workspace, chain('a'), 'b'.repeat(200)))

    const cleared = await clearSetId(root, known)

    expect(statSync(strange).mode & 0o6000).toBe(0)
    expect(cleared).toHaveLength(2)
  })

  it('are not searched for beyond the limits', async () => {
    mkdirSync(join(workspace, Array<string>(1100).fill('d').join('/')), { recursive: true })

    await expect(survey()).rejects.toMatchObject({ code: 'too_large' })
  })

  it('are found without opening files that could block', async () => {
    execFileSync('mkfifo', [join(workspace, 'pipe')])
    chmodSync(join(workspace, 'pipe'), 0o4666)

    expect(await survey()).toEqual({ files: new Set(), hasSetGroupFolders: false })
  })

  it('of folders are reported, the root included', async () => {
    expect((await survey()).hasSetGroupFolders).toBe(false)

    chmodSync(workspace, 0o2755)
    expect((await survey()).hasSetGroupFolders).toBe(true)

    chmodSync(workspace, 0o755)
    chmodSync(join(workspace, 'folder'), 0o2755)
    expect((await survey()).hasSetGroupFolders).toBe(true)
  })

  it('stop being searched for when the signal is aborted', async () => {
    for (let index = 0; index < 600; index++) writeFileSync(join(workspace, String(index)), '')

    await expect(surveySetId(root, AbortSignal.abort(new Error('enough')))).rejects.toThrow('enough')
  })

  it.skipIf(process.getuid?.() !== 0)(
    'are cleared in a folder whose owner removed its permissions',
    async () => {
      const NOBODY = 65_534
      const path = aFile('folder/hidden', 0o755)
      for (const one of [above, workspace, join(workspace, 'folder'), path]) chownSync(one, NOBODY, NOBODY)
      chmodSync(path, 0o4755)
      chmodSync(join(workspace, 'folder'), 0)
      const program = `
      import { openSync } from 'node:fs'
      import { clearSetId } from '${join(import.meta.dirname, '../../runtime/workspace/set-id.ts')}'
      const root = { fd: openSync('${workspace}'), path: '${workspace}' }
      console.log(await clearSetId(root, { files: new Set(), hasSetGroupFolders: false }))`
      const asNobody = ['--reuid=65534', '--regid=65534', '--clear-groups', '--', process.execPath]

      const printed = execFileSync('setpriv', [...asNobody, '--input-type=module', '-e', program], {
        encoding: 'utf8',
      })

      expect(printed).toContain('./folder/hidden')
      expect(bitsOf(path)).toBe(0)
      expect(modeOf(join(workspace, 'folder'))).toBe(0)
    },
  )
})
