import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import type { FileErrorCode, FileOperationInput, FileResult } from '../../contracts/files.ts'
import type { PathEngine } from '../../runtime/workspace/engines/path-engine.ts'
import { openWorkspace, type WorkspaceEngine } from '../../runtime/workspace/open-workspace.ts'

export const SECRET = 'what lies outside'

export interface WorkspaceFixture {
  readonly workspace: WorkspaceEngine
  readonly root: string
  /** A folder outside the root that contains `secret.txt`. */
  readonly outside: string
  readonly perform: (operation: FileOperationInput, content?: string) => Promise<FileResult>
  /** The error code of the operation, or `ok`. */
  readonly codeOf: (operation: FileOperationInput, content?: string) => Promise<FileErrorCode | 'ok'>
  readonly readText: (path: string) => Promise<string>
}

/** An open, empty workspace, with a folder outside it that must not be reached. Deleted after the test. */
export async function aWorkspace(engine?: PathEngine['name']): Promise<WorkspaceFixture> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'workspace-')))
  const [root, outside] = [join(folder, 'root'), join(folder, 'outside')]
  mkdirSync(root)
  mkdirSync(outside)
  writeFileSync(join(outside, 'secret.txt'), SECRET)
  const workspace = await openWorkspace(root, engine ? { engine } : {})
  onTestFinished(() => {
    workspace.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const perform: WorkspaceFixture['perform'] = async (operation, content) => {
    const payload = content === undefined ? undefined : Buffer.from(content)
    return (await workspace.perform(operation, { payload })).result
  }
  return {
    workspace,
    root,
    outside,
    perform,
    codeOf: async (operation, content) => {
      const result = await perform(operation, content)
      return result.ok ? 'ok' : result.code
    },
    readText: async (path) => {
      const { result, payload } = await workspace.perform({ op: 'read', path })
      if (!result.ok) throw new Error(result.message)
      return Buffer.from(payload).toString()
    },
  }
}
