import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { refuseToShow } from '../../runtime/api/private-folders.ts'
import { admitWorkspace } from '../../runtime/api/runs/admit/workspace-admission.ts'
import { makeSandboxFolder, removeSandboxFolder } from '../../runtime/sandboxes/local/sandbox-folder.ts'

function aHome() {
  const home = realpathSync(mkdtempSync(join(tmpdir(), 'aw-admission-')))
  onTestFinished(() => rmSync(home, { recursive: true, force: true }))
  const temporary = join(home, 'project/tmp')
  const sandbox = join(temporary, 'agentweaver-sandbox-x1')
  for (const path of [join(sandbox, 'workspace'), join(temporary, 'mine')])
    mkdirSync(path, { recursive: true })
  return { home, temporary, sandbox, bounds: { roots: [home], forbidden: [], temporary } }
}

it('refuses a workspace that shows commands the folders of running sandboxes', async () => {
  const { home, temporary, sandbox, bounds } = aHome()

  for (const path of [home, join(home, 'project'), temporary, sandbox, join(sandbox, 'workspace')])
    await expect(admitWorkspace(path, bounds), path).rejects.toThrow('folder of running sandboxes')
  expect(await admitWorkspace(join(temporary, 'mine'), bounds)).toBe(join(temporary, 'mine'))
})

it('shows commands no folder in which the local provider keeps its sandboxes', async () => {
  const { directory } = await makeSandboxFolder()
  onTestFinished(() => removeSandboxFolder(directory))
  const { home } = aHome()
  const show = (path: string) => refuseToShow([{ path, by: 'A_SETTING' }], [])

  for (const path of ['/', tmpdir(), directory, join(directory, 'state')])
    await expect(show(path), path).rejects.toThrow('A_SETTING')
  await expect(show(home)).resolves.toBeUndefined()
})
