import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { FileVersion } from '../../contracts/results.ts'
import type { ByteName } from '../workspace/git/folder-names.ts'
import { blobId, storeBlob } from './blobs.ts'
import type { ObjectFormat } from './clean-config.ts'
import type { Change } from './compare.ts'
import { type GitOutput, type GitSession, IN, OUT } from './git-sandbox.ts'
import type { TreeItem } from './list-files.ts'
import type { SnapshotFile } from './snapshot.ts'

/** Inputs for the results. All of them are read as data in a sandbox. */
export interface ResultParts {
  readonly runId: string
  readonly format: ObjectFormat
  /** Object folder for content after the run. */
  readonly objects: string
  readonly changes: readonly Change[]
  /** Nested repositories. Changes in them are not part of a branch. */
  readonly nested: readonly string[]
  /** HEAD before the run, its tree, and the commits of all refs. */
  readonly head: string | undefined
  readonly tree: ReadonlyMap<ByteName, TreeItem>
  readonly tips: readonly string[]
}

export interface FileStat {
  readonly path: string
  /** The previous path of a renamed file. */
  readonly from?: string
  readonly status: 'added' | 'modified' | 'deleted' | 'renamed' | 'type changed'
  /** Undefined if git treats the content as binary. */
  readonly additions?: number
  readonly deletions?: number
  /** Set for an uploaded folder. */
  readonly before?: FileVersion
  readonly after?: FileVersion
}

export interface MadeDiff {
  readonly patch: Buffer
  readonly isCut: boolean
  readonly files: readonly FileStat[]
}

export const RESULT_LIMITS = {
  patchBytes: 16_777_216,
  listBytes: 67_108_864,
  bundleBytes: 268_435_456,
  timeoutMs: 60_000,
} as const

export const RESULT_MOUNTS = {
  result: '/run/result',
  base: '/run/base',
  after: '/run/after',
  agent: '/run/agent-git',
} as const

/** Object folders with the content before and after the run, plus the user's objects. */
const ALTERNATES = [`${RESULT_MOUNTS.base}/objects`, RESULT_MOUNTS.after, '/run/git-objects/0']

/** Stands in the diff for content that was not stored. */
const notKept = ({ bytes, id }: SnapshotFile) => `agentweaver: ${bytes} bytes that are not shown, ${id}\n`

const DIFF = `
export GIT_DIR=${RESULT_MOUNTS.result}
tree() { GIT_INDEX_FILE=/tmp/"$1" git update-index -z --index-info <${IN}/"$1" && GIT_INDEX_FILE=/tmp/"$1" git write-tree; }
before=$(tree before) && after=$(tree after) || exit 1
compare() { git diff-tree -r -M -l2000 --full-index --no-color --no-ext-diff --no-textconv "$@" "$before" "$after"; }
compare -z --raw >${OUT}/raw && compare -z --numstat >${OUT}/numstat || exit 1
compare -p | head -c ${RESULT_LIMITS.patchBytes + 1} >${OUT}/patch
`

/**
 * Creates a git directory owned by the service. It has access to the content before and after the run, but
 * reads nothing that the run wrote.
 */
export async function makeResultGit(
  directory: string,
  { format, isRepository }: { readonly format: ObjectFormat; readonly isRepository: boolean },
): Promise<void> {
  for (const folder of ['objects/info', 'refs'])
    await mkdir(join(directory, folder), { recursive: true, mode: 0o700 })
  const isSha256 = format === 'sha256'
  const config = [
    `[core]\n\trepositoryformatversion = ${isSha256 ? 1 : 0}\n\tbare = true\n\tquotepath = false\n`,
    // Allows names that mean `.git` only on other systems. Names that mean `.git` on this one were excluded
    // before.
    '\tprotectntfs = false\n\tprotecthfs = false\n\tloosecompression = 1\n',
    ...(isSha256 ? ['[extensions]\n\tobjectformat = sha256\n'] : []),
  ]
  const alternates = isRepository ? ALTERNATES : ALTERNATES.slice(0, 2)
  await Promise.all([
    writeFile(join(directory, 'HEAD'), 'ref: refs/heads/none\n'),
    writeFile(join(directory, 'config'), config.join('')),
    writeFile(
      join(directory, 'objects', 'info', 'alternates'),
      alternates.map((path) => `${path}\n`).join(''),
    ),
  ])
}

/**
 * Creates the diff of the folder before and after the run, by content. The run's index and attributes are not
 * used, because both can hide changes from git.
 */
export async function makeDiff(git: GitSession, parts: ResultParts): Promise<MadeDiff> {
  await git.write('before', await indexInfo(parts, 'before'))
  await git.write('after', await indexInfo(parts, 'after'))
  const output = await git.run({ script: DIFF, timeoutMs: RESULT_LIMITS.timeoutMs })
  const raw = await output.read('raw', RESULT_LIMITS.listBytes)
  const numbers = await output.read('numstat', RESULT_LIMITS.listBytes)
  const patch = await output.read('patch', RESULT_LIMITS.patchBytes + 1)
  if (output.exitCode !== 0 || !raw || !numbers || !patch) throw new Error(said(output))
  return {
    patch: patch.subarray(0, RESULT_LIMITS.patchBytes),
    isCut: patch.length > RESULT_LIMITS.patchBytes,
    files: statsOf(raw.toString('latin1'), numbers.toString('latin1')),
  }
}

export const said = ({ exitCode, stderr }: GitOutput) =>
  stderr === '' ? `git ended with ${exitCode ?? 'a signal'}` : stderr

/** The changed paths of one side, in the format of `git update-index --index-info`. */
async function indexInfo(
  { changes, format, objects }: ResultParts,
  side: 'before' | 'after',
): Promise<string> {
  const lines: string[] = []
  for (const { path, [side]: file } of changes) {
    if (file === undefined) continue
    const id = file.isKept ? file.id : await storeNote(objects, format, file)
    lines.push(`${file.mode} ${id}\t${path}\0`)
  }
  return lines.join('')
}

async function storeNote(objects: string, format: ObjectFormat, file: SnapshotFile): Promise<string> {
  const note = Buffer.from(notKept(file))
  const id = blobId(format, note)
  await storeBlob(objects, id, note)
  return id
}

const STATUS: Readonly<Record<string, FileStat['status']>> = {
  A: 'added',
  M: 'modified',
  D: 'deleted',
  R: 'renamed',
  T: 'type changed',
}

/** `--raw -z`: `:mode mode id id status NUL path NUL`, with a second path for a renamed file. */
export function statsOf(raw: string, numstat: string): FileStat[] {
  const numbers = numbersOf(numstat)
  const fields = raw.split('\0').values()
  const files: FileStat[] = []
  for (const head of fields) {
    const letter = head.split(' ')[4]?.[0]
    if (letter === undefined) break
    const from = letter === 'R' ? next(fields) : undefined
    const path = next(fields)
    const status = STATUS[letter] ?? 'modified'
    files.push({
      path: toText(path),
      ...(from !== undefined && { from: toText(from) }),
      status,
      ...numbers.get(path),
    })
  }
  return files
}

const next = (fields: Iterator<string, undefined>): string => fields.next().value ?? ''

type Numbers = Pick<FileStat, 'additions' | 'deletions'>

/**
 * `--numstat -z`: `additions TAB deletions TAB path NUL`. For a renamed file the path is empty and two paths
 * follow.
 */
function numbersOf(numstat: string): Map<ByteName, Numbers> {
  const numbers = new Map<ByteName, Numbers>()
  const fields = numstat.split('\0').values()
  for (const field of fields) {
    const [, additions, deletions, name] = /^(\d+|-)\t(\d+|-)\t(.*)$/s.exec(field) ?? []
    if (name === undefined) break
    const path = name === '' ? [next(fields), next(fields)][1] : name
    if (additions !== '-')
      numbers.set(path ?? '', { additions: Number(additions), deletions: Number(deletions) })
  }
  return numbers
}

export const toText = (bytes: ByteName) => Buffer.from(bytes, 'latin1').toString('utf8')
