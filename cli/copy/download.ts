import { basename } from 'node:path'
import { handOffKind } from '../../policies/agent/hand-off.ts'
import { isGitName } from '../../runtime/workspace/git/git-names.ts'
import type { WorkspaceEngine } from '../../runtime/workspace/open-workspace.ts'
import { receiveFile } from '../../runtime/workspace/receive-file.ts'
import { CliError, usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { visible } from '../terminal/visible.ts'
import type { Copied } from './copied.ts'
import { requireFits } from './limits.ts'
import type { RemoteEntry, RemoteFiles } from './remote-files.ts'
import { isExecutable, joined, nameOf, type Plan, planCopy } from './walk.ts'

export type Target = {
  readonly workspace: WorkspaceEngine
  /** Path below the workspace's root. */
  readonly path: string
  /** Whether the person wrote a slash at its end. */
  readonly isFolder: boolean
}

type Source = { readonly remote: RemoteFiles; readonly path: string }

/** Copies a file or folder of a sandbox to this machine. Everything that the sandbox returns is data to be checked. */
export async function download(
  { remote, path }: Source,
  target: Target,
  onStart: (files: number) => (done: Pick<Copied, 'files' | 'bytes'>) => void,
): Promise<Omit<Copied, 'from' | 'to'>> {
  const entry = path === '.' ? ROOT : await remote.find(path)
  if (!entry) throw new CliError(`There is no ${visible(path)} in the workspace.`, { status: EXIT.notFound })
  const local = await targetPath(entry, path, target)
  const plan = await planCopy({
    top: entry,
    at: local,
    childrenOf: ({ path }) => remote.list(path),
    reasonToSkip,
  })
  if (entry.type !== 'directory' && plan.skipped[0])
    throw new CliError(`${visible(path)} is not copied: ${visible(plan.skipped[0].reason)}.`, {
      status: EXIT.refused,
    })
  const report = onStart(plan.files.length)
  const done = { files: 0, bytes: 0 }
  for (const folder of plan.folders) await makeFolder(target.workspace, folder)
  for (const { entry, at } of plan.files) {
    const content = bounded(remote.read(entry), done)
    await receiveFile(target.workspace, { path: at, content, isExecutable: isExecutable(entry) })
    done.files++
    report(done)
  }
  return { ...done, skipped: plan.skipped, handOff: handOffOf(plan) }
}

const ROOT = { type: 'directory', name: '', path: '.', size: 0, mtimeMs: 0, mode: 0o755 } as const

/** Like `cp`: into a folder that exists, otherwise to this name. The files of the workspace itself go into the folder. */
async function targetPath(entry: RemoteEntry, path: string, target: Target): Promise<string> {
  const { workspace, isFolder } = target
  const existing = await kindAt(workspace, target.path)
  if (existing === 'symlink')
    throw usageError(`${visible(target.path)} is a symbolic link. Name the file or folder that it leads to.`)
  if (existing !== undefined && existing !== 'directory' && entry.type === 'directory')
    throw usageError(`${visible(path)} is a folder, and ${visible(target.path)} is not.`)
  const isInto = existing === 'directory' || (isFolder && entry.type !== 'directory')
  return isInto && path !== '.' ? joined(target.path, basename(path)) : target.path
}

async function kindAt(workspace: WorkspaceEngine, path: string) {
  const { result } = await workspace.perform({ op: 'stat', path })
  if (result.ok) return result.entry?.type
  if (result.code === 'not_found') return undefined
  throw usageError(result.message)
}

/** Git obeys the files of a git directory, so an agent that could place one would run programs on this machine. */
function reasonToSkip(_entry: RemoteEntry, at: string): string | undefined {
  const name = nameOf({ path: at })
  if (isGitName(name)) return "git's own files are not copied; agentweaver fetch brings the commits"
  return name.toLowerCase() === 'head'
    ? 'a file of this name can make git take its folder for a repository'
    : undefined
}

async function makeFolder(workspace: WorkspaceEngine, path: string): Promise<void> {
  const { result } = await workspace.perform({ op: 'mkdir', path })
  if (!result.ok) throw new CliError(result.message, { status: EXIT.refused })
}

/** Counts what arrives. The sizes in a listing are the sandbox's claim. */
async function* bounded(
  content: AsyncIterable<Uint8Array>,
  done: { bytes: number },
): AsyncGenerator<Uint8Array> {
  for await (const piece of content) {
    done.bytes += piece.byteLength
    requireFits({ entries: 0, depth: 0, bytes: done.bytes })
    yield piece
  }
}

const handOffOf = ({ files }: Plan<RemoteEntry>): Copied['handOff'] =>
  files.flatMap(({ at }) => {
    const kind = handOffKind(at)
    return kind === undefined ? [] : [{ path: at, kind }]
  })
