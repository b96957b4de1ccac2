import { constants } from 'node:fs'
import { copyFile, mkdir, open, readdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Repository } from './find-git.ts'
import { absent, kindOf, NotData, readData } from './read-data.ts'

export interface PrivateGit {
  readonly directory: string
  /** Undefined if the folder is not a repository. */
  readonly repository: Repository | undefined
  /** Content of the configuration file. */
  readonly config: string
  /** Path in the sandbox at which the user's objects are mounted. */
  readonly objects: string
  /** Lines for `info/exclude`, after the lines from the repository. */
  readonly excludes: string
}

const LIMITS = {
  refBytes: 4_096,
  refs: 200_000,
  packedRefsBytes: 268_435_456,
  indexBytes: 1_073_741_824,
  otherBytes: 67_108_864,
} as const

/** Refs that are not history: replacements and grafts falsify it, stashes and tool refs are private. */
const DROPPED_REFS = /^refs\/(?:replace|stash|bisect|rewritten|worktree|original|agentweaver)(?:\/|$)/
const OID = /^[0-9a-f]{40}(?:[0-9a-f]{24})?$/
const REF_CONTENT = /^(?:ref: refs\/[^\0\n]{1,1000}|[0-9a-f]{40}(?:[0-9a-f]{24})?)\s*$/

/**
 * State of a merge or revert that a run may continue. The state of a rebase names programs, so it is not
 * copied.
 */
const STATE_FILES = ['MERGE_HEAD', 'MERGE_MSG', 'MERGE_MODE', 'CHERRY_PICK_HEAD', 'REVERT_HEAD', 'ORIG_HEAD']

/**
 * Creates a git directory that a run may change freely: copies of HEAD, index and refs, a configuration written
 * by the service, and read access to the user's objects. Everything is read as data; links are rejected.
 */
export async function makePrivateGit(git: PrivateGit): Promise<void> {
  const { directory, repository, config, objects, excludes } = git
  for (const folder of ['objects/info', 'objects/pack', 'refs/heads', 'refs/tags', 'info'])
    await mkdir(join(directory, folder), { recursive: true, mode: 0o700 })
  await writeFile(join(directory, 'config'), config)
  if (repository === undefined) {
    await writeFile(join(directory, 'HEAD'), 'ref: refs/heads/main\n')
    await writeFile(join(directory, 'info', 'exclude'), excludes)
    return
  }
  await writeFile(join(directory, 'objects', 'info', 'alternates'), `${objects}\n`)
  const { gitDir, commonDir } = repository
  const head = await readData(join(gitDir, 'HEAD'), LIMITS.refBytes)
  if (head === undefined || !REF_CONTENT.test(head.toString('latin1')))
    throw new NotData(`${join(gitDir, 'HEAD')} is not a valid git file`)
  await writeFile(join(directory, 'HEAD'), head)
  await copyRefs(join(commonDir, 'refs'), directory)
  await copyPackedRefs(commonDir, directory)
  await copyIndex(gitDir, directory)
  for (const name of STATE_FILES) await copyData(join(gitDir, name), join(directory, name))
  await copyData(join(commonDir, 'shallow'), join(directory, 'shallow'))
  await copyData(join(gitDir, 'info', 'sparse-checkout'), join(directory, 'info', 'sparse-checkout'))
  const exclude = await readData(join(commonDir, 'info', 'exclude'), LIMITS.otherBytes)
  await writeFile(
    join(directory, 'info', 'exclude'),
    `${exclude?.toString('latin1') ?? ''}\n${excludes}`,
    'latin1',
  )
}

async function copyData(from: string, to: string): Promise<void> {
  const content = await readData(from, LIMITS.otherBytes)
  if (content) await writeFile(to, content)
}

async function copyRefs(from: string, directory: string): Promise<void> {
  let refs = 0
  for await (const ref of refFiles(dirname(from), 'refs')) {
    if (++refs > LIMITS.refs) throw new NotData(`${from} has more than ${LIMITS.refs} refs`)
    await copyRef(join(dirname(from), ref), join(directory, ref))
  }
}

async function* refFiles(root: string, folder: string): AsyncGenerator<string> {
  for (const name of (await readdir(join(root, folder))).sort()) {
    const ref = `${folder}/${name}`
    if (DROPPED_REFS.test(ref)) continue
    const kind = await kindOf(join(root, ref))
    if (kind === 'link') throw new NotData(`${join(root, ref)} is a symbolic link`)
    if (kind === 'folder') yield* refFiles(root, ref)
    if (kind === 'file') yield ref
  }
}

/** Skips lock files and refs that are being written. */
async function copyRef(from: string, to: string): Promise<void> {
  const content = await readData(from, LIMITS.refBytes)
  if (content === undefined || !REF_CONTENT.test(content.toString('latin1'))) return
  await mkdir(join(to, '..'), { recursive: true, mode: 0o700 })
  await writeFile(to, content)
}

async function copyPackedRefs(commonDir: string, directory: string): Promise<void> {
  const packed = await readData(join(commonDir, 'packed-refs'), LIMITS.packedRefsBytes)
  if (packed === undefined) return
  let isKept = true
  const lines = packed
    .toString('latin1')
    .split('\n')
    .filter((line) => {
      if (line.startsWith('#')) return true
      // The line of an annotated tag is followed by the id of the tagged object.
      if (line.startsWith('^')) return isKept && OID.test(line.slice(1))
      const [oid = '', name = ''] = line.split(' ')
      isKept = OID.test(oid) && name.startsWith('refs/') && !DROPPED_REFS.test(name)
      return isKept
    })
  await writeFile(join(directory, 'packed-refs'), lines.map((line) => `${line}\n`).join(''), 'latin1')
}

/** Copies the index and, if it is split, its shared part. */
async function copyIndex(gitDir: string, directory: string): Promise<void> {
  const shared = (await readdir(gitDir)).filter((name) => /^sharedindex\.[0-9a-f]{40,64}$/.test(name))
  for (const name of ['index', ...shared]) await copyLargeFile(join(gitDir, name), join(directory, name))
}

async function copyLargeFile(from: string, to: string): Promise<void> {
  if ((await kindOf(from)) === undefined) return
  await using file = await open(from, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  const stats = await file.stat()
  if (!stats.isFile()) throw new NotData(`${from} is not a file`)
  if (stats.size > LIMITS.indexBytes) throw new NotData(`${from} is larger than ${LIMITS.indexBytes} bytes`)
  await copyFile(`/proc/self/fd/${file.fd}`, to, constants.COPYFILE_FICLONE).catch(absent)
}
