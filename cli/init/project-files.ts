import type { FileEntry } from '../../contracts/files.ts'
import type { WorkspaceEngine } from '../../runtime/workspace/open-workspace.ts'

/** Real manifests are far smaller. */
const MAX_BYTES = 1_048_576

/** The files of a project's top folder, as data: nothing of the project runs, and links are not followed. */
export interface ProjectFiles {
  /** Names of regular files. */
  readonly names: readonly string[]
  /** The text of a file. Empty if there is no such regular file, or if it is too large. */
  read(name: string): Promise<string>
}

export async function openProject(workspace: WorkspaceEngine): Promise<ProjectFiles> {
  const files = new Map((await entriesOf(workspace)).map((entry) => [entry.path, entry]))
  return {
    names: [...files.keys()],
    async read(name) {
      const entry = files.get(name)
      if (!entry || entry.size > MAX_BYTES) return ''
      const { result, payload } = await workspace.perform({ op: 'read', path: name, length: MAX_BYTES })
      return result.ok ? Buffer.from(payload).toString('utf8') : ''
    },
  }
}

/** The first page has far more entries than the top folder of a project. */
async function entriesOf(workspace: WorkspaceEngine): Promise<FileEntry[]> {
  const { result } = await workspace.perform({ op: 'list', path: '.' })
  return result.ok ? (result.entries ?? []).filter(({ type }) => type === 'file') : []
}
