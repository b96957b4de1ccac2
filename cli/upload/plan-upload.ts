import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { FILE_LIMITS } from '../../contracts/limits.ts'
import { memberAt, packListed } from '../../runtime/workspace/archive/pack-listed.ts'
import { type Member, type WalkOptions, walkMembers } from '../../runtime/workspace/archive/walk-members.ts'
import { readUpTo, withHandleAsync } from '../../runtime/workspace/handles.ts'
import { openWorkspace, type WorkspaceEngine } from '../../runtime/workspace/open-workspace.ts'
import { READ_FLAGS } from '../../runtime/workspace/operations/read.ts'
import type { Tree } from '../../runtime/workspace/tree.ts'
import { type IsolatedGit, openIsolatedGit } from '../program-call/isolated-git.ts'
import type { CliIo } from '../terminal/terminal.ts'
import { type ListedFiles, listFiles } from './list-files.ts'
import { hasPrivateKey, hasSecretName, SECRET_SEARCH_BYTES } from './secret-names.ts'
import { makeUploadGit, packHistory, type UploadGit } from './upload-git.ts'

export interface UploadRequest {
  readonly folder: string
  /** An empty folder of this command. */
  readonly scratch: string
  readonly withHistory: boolean
  /** Untracked files that are uploaded although they look like secrets. */
  readonly secrets: readonly string[]
}

export interface UploadPlan extends Disposable {
  readonly files: number
  /** Files, folders and links of the archive. */
  readonly entries: number
  readonly bytes: number
  /** Bytes of the git history in it. Undefined without a history. */
  readonly historyBytes: number | undefined
  /** Size of the archive. */
  readonly archiveBytes: number
  /** Untracked files that look like secrets and are left out. */
  readonly secrets: readonly string[]
  /** Files that git tracks and that may contain secrets. They are uploaded. */
  readonly trackedSecrets: readonly string[]
  /** Repositories inside the folder, whose history is left out. */
  readonly nested: readonly string[]
  /** Other entries that are left out, with the reason. */
  readonly omitted: readonly (readonly [path: string, reason: string])[]
  /** The largest folders, largest first. */
  readonly largest: readonly (readonly [path: string, bytes: number])[]
  open(signal: AbortSignal): AsyncIterable<Uint8Array>
}

const LIMITS = { maxEntries: FILE_LIMITS.maxArchiveEntries, maxBytes: FILE_LIMITS.maxArchiveBytes }
const MAX_LARGEST = 5

/** Lists what an upload of a folder contains. Nothing is sent. */
export async function planUpload(io: CliIo, request: UploadRequest): Promise<UploadPlan> {
  const tree = await openWorkspace(request.folder)
  try {
    return await planTree(io, tree, request)
  } catch (error) {
    tree.close()
    throw error
  }
}

async function planTree(io: CliIo, tree: WorkspaceEngine, request: UploadRequest): Promise<UploadPlan> {
  const { folder, scratch, withHistory } = request
  const home = join(scratch, 'home')
  const upload = join(scratch, 'upload')
  for (const directory of [home, upload]) await mkdir(directory, { mode: 0o700 })
  const run = openIsolatedGit(io, home)
  const git = await makeUploadGit(run, { folder, scratch: upload, wantsHistory: withHistory })
  const omitted: [string, string][] = []
  const onOmitted = (path: string, reason: string) => void omitted.push([path, reason])
  const isFolder = (path: string) => memberAt(tree, path, { onOmitted: () => undefined })?.kind === 'folder'
  const listed = await listFiles(run, { folder, git, scratch, home: io.env['HOME'], isFolder })
  for (const path of listed.unnameable) onOmitted(path, 'an archive cannot have this name')
  const { members, secrets, trackedSecrets } = await chooseMembers(tree, listed, {
    asked: new Set(request.secrets),
    onOmitted,
  })
  const history = withHistory && git.hasHistory ? await openHistory(run, git, upload) : undefined
  const ofHistory = history ? await Array.fromAsync(walkMembers(history, { onOmitted })) : []
  return {
    ...totalsOf(members, ofHistory),
    secrets,
    trackedSecrets,
    nested: listed.nested,
    omitted,
    open: (signal) =>
      packListed(
        [{ tree, paths: members.map(({ path }) => path.text) }, ...(history ? [{ tree: history }] : [])],
        { limits: LIMITS, signal, onOmitted: () => undefined },
      ),
    [Symbol.dispose]() {
      tree.close()
      history?.close()
    },
  }
}

async function openHistory(run: IsolatedGit, git: UploadGit, upload: string): Promise<WorkspaceEngine> {
  await packHistory(run, git)
  return openWorkspace(upload)
}

type Choice = { readonly asked: ReadonlySet<string>; readonly onOmitted: WalkOptions['onOmitted'] }

/** The entries of an upload. Untracked files that look like secrets are only named. */
async function chooseMembers(tree: Tree, { paths, untracked }: ListedFiles, { asked, onOmitted }: Choice) {
  const members: Member[] = []
  const secrets: string[] = []
  for (const path of paths) {
    const member = memberAt(tree, path, { onOmitted })
    if (member === undefined || member.kind === 'folder') continue
    const isJudged = untracked.has(path) && !asked.has(path)
    if (isJudged && (await looksSecret(tree, member))) secrets.push(path)
    else members.push(member)
  }
  const trackedSecrets = members
    .map(({ path }) => path.text)
    .filter((path) => !untracked.has(path) && hasSecretName(path))
  return { members, secrets, trackedSecrets }
}

const sizeOf = (member: Member): number => (member.kind === 'file' ? Number(member.stats.size) : 0)

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0)

const BLOCK = 512
/** A header, the content in whole blocks, and for a long name a second header with the name. */
const archiveSizeOf = (member: Member): number =>
  BLOCK +
  Math.ceil(sizeOf(member) / BLOCK) * BLOCK +
  (Buffer.byteLength(member.path.text) > 99 ? 4 * BLOCK + Buffer.byteLength(member.path.text) : 0)

function totalsOf(members: readonly Member[], ofHistory: readonly Member[]) {
  const all = [...members, ...ofHistory]
  const folders = new Map<string, number>()
  for (const member of all) {
    const names = member.path.names
    const folder = names.length > 1 ? names.slice(0, Math.min(2, names.length - 1)).join('/') : '.'
    folders.set(folder, (folders.get(folder) ?? 0) + sizeOf(member))
  }
  const historyBytes = sum(ofHistory.map(sizeOf))
  return {
    files: members.length,
    entries: all.length,
    bytes: sum(members.map(sizeOf)) + historyBytes,
    historyBytes: ofHistory.length > 0 ? historyBytes : undefined,
    archiveBytes: sum(all.map(archiveSizeOf)) + 2 * BLOCK,
    largest: [...folders].sort(([, a], [, b]) => b - a).slice(0, MAX_LARGEST),
  }
}

async function looksSecret(tree: Tree, member: Member): Promise<boolean> {
  if (hasSecretName(member.path.text)) return true
  if (member.kind !== 'file' || member.stats.size === 0n) return false
  return withHandleAsync(tree.engine.open(member.path, READ_FLAGS), async (fd) =>
    hasPrivateKey(await readUpTo(fd, 0, SECRET_SEARCH_BYTES)),
  )
}
