import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Layout } from '../executors/executor.ts'
import type { ByteName } from '../workspace/git/folder-names.ts'
import { blobId, storeBlob } from './blobs.ts'
import type { ObjectFormat } from './clean-config.ts'
import type { Change } from './compare.ts'
import { type GitOutput, OUT, type RunGit } from './git-sandbox.ts'
import type { TreeItem } from './list-files.ts'
import type { SnapshotFile } from './snapshot.ts'

/** What results are made of, all read as data in a sandbox. */
export interface ResultParts {
  readonly runId: string
  readonly format: ObjectFormat
  /** The folder as the run left it. */
  readonly workspace: string
  /** Holds the content that files had before the run. */
  readonly baseObjects: string
  /** The user's objects, where the folder is a repository. */
  readonly userObjects: string | undefined
  /** The git directory that the run had. */
  readonly agentGit: string | undefined
  readonly changes: readonly Change[]
  /** Repositories in the folder: what changed in them is no part of a branch. */
  readonly nested: readonly string[]
  /** HEAD before the run, its tree, and the tips of all refs. */
  readonly head: string | undefined
  readonly tree: ReadonlyMap<ByteName, TreeItem>
  readonly tips: readonly string[]
  /** A folder of the service for the files of this step. */
  readonly scratch: string
}

export interface FileStat {
  readonly path: string
  /** The former path of a renamed file. */
  readonly from?: string
  readonly status: 'added' | 'modified' | 'deleted' | 'renamed' | 'type changed'
  /** Absent where git takes the content for no text. */
  readonly additions?: number
  readonly deletions?: number
}

export interface MadeDiff {
  readonly patch: Buffer
  readonly isCut: boolean
  readonly files: readonly FileStat[]
}

export const RESULT_LIMITS = {
  patchBytes: 16_777_216,
  listBytes: 67_108_864,
  bundleBytes: 536_870_912,
  timeoutMs: 60_000,
} as const

export const RESULT_MOUNTS = {
  result: '/run/result',
  base: '/run/base-objects',
  user: '/run/git-objects/0',
  agent: '/run/agent-git',
  input: '/run/in',
} as const

/** What stands in a difference for content that was not kept. */
const notKept = ({ bytes, id }: SnapshotFile) => `agentweaver: ${bytes} bytes that are not shown, ${id}\n`

const DIFF = `
export GIT_DIR=${RESULT_MOUNTS.result}
tree() { GIT_INDEX_FILE=/tmp/"$1" git update-index -z --index-info <${RESULT_MOUNTS.input}/"$1" && GIT_INDEX_FILE=/tmp/"$1" git write-tree; }
before=$(tree before) && after=$(tree after) || exit 1
compare() { git diff-tree -r -M -l2000 --full-index --no-color --no-ext-diff --no-textconv "$@" "$before" "$after"; }
compare -z --raw >${OUT}/raw && compare -z --numstat >${OUT}/numstat || exit 1
compare -p | head -c ${RESULT_LIMITS.patchBytes + 1} >${OUT}/patch
`

/** A git directory of ours, which knows the content before and after the run and nothing that the run says. */
export async function openResultGit(parts: ResultParts): Promise<string> {
  const directory = join(parts.scratch, 'result')
  for (const folder of ['objects/info', 'refs'])
    await mkdir(join(directory, folder), { recursive: true, mode: 0o700 })
  const isSha256 = parts.format === 'sha256'
  const config = [
    `[core]\n\trepositoryformatversion = ${isSha256 ? 1 : 0}\n\tbare = true\n\tquotepath = false\n`,
    // A name that another system takes for .git is a name here; those that this one does are left out before.
    '\tprotectntfs = false\n\tprotecthfs = false\n\tloosecompression = 1\n',
    ...(isSha256 ? ['[extensions]\n\tobjectformat = sha256\n'] : []),
  ]
  const alternates = [RESULT_MOUNTS.base, ...(parts.userObjects ? [RESULT_MOUNTS.user] : [])]
  await Promise.all([
    writeFile(join(directory, 'HEAD'), 'ref: refs/heads/none\n'),
    writeFile(join(directory, 'config'), config.join('')),
    writeFile(
      join(directory, 'objects', 'info', 'alternates'),
      alternates.map((path) => `${path}\n`).join(''),
    ),
  ])
  return directory
}

/** The mounts of both steps. */
export function resultMounts(parts: ResultParts, directory: string): Layout['mounts'] {
  const readOnly = (source: string, target: string) => ({ source, target, writable: false })
  return [
    { source: directory, target: RESULT_MOUNTS.result, writable: true },
    readOnly(parts.baseObjects, RESULT_MOUNTS.base),
    ...(parts.userObjects ? [readOnly(parts.userObjects, RESULT_MOUNTS.user)] : []),
    ...(parts.agentGit ? [readOnly(parts.agentGit, RESULT_MOUNTS.agent)] : []),
    readOnly(join(parts.scratch, 'in'), RESULT_MOUNTS.input),
  ]
}

/**
 * The difference between the folder before and after the run, by content. Neither the index nor attributes of the
 * run have a part in it: both can hide a change from git.
 */
export async function makeDiff(runGit: RunGit, parts: ResultParts, directory: string): Promise<MadeDiff> {
  const input = join(parts.scratch, 'in')
  await mkdir(input, { recursive: true, mode: 0o700 })
  await writeFile(join(input, 'before'), await indexInfo(parts, directory, 'before'), 'latin1')
  await writeFile(join(input, 'after'), await indexInfo(parts, directory, 'after'), 'latin1')
  const output = await runGit({
    workspace: parts.workspace,
    mounts: resultMounts(parts, directory),
    script: DIFF,
    timeoutMs: RESULT_LIMITS.timeoutMs,
    out: join(parts.scratch, 'out'),
  })
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

/** The changed paths on one side, as `git update-index --index-info` reads them. */
async function indexInfo(
  { changes, format }: ResultParts,
  directory: string,
  side: 'before' | 'after',
): Promise<string> {
  const lines: string[] = []
  for (const { path, [side]: file } of changes) {
    if (file === undefined) continue
    const id = file.isKept ? file.id : await storeNote(directory, format, file)
    lines.push(`${file.mode} ${id}\t${path}\0`)
  }
  return lines.join('')
}

async function storeNote(directory: string, format: ObjectFormat, file: SnapshotFile): Promise<string> {
  const note = Buffer.from(notKept(file))
  const id = blobId(format, note)
  await storeBlob(join(directory, 'objects'), id, note)
  return id
}

const STATUS: Readonly<Record<string, FileStat['status']>> = {
  A: 'added',
  M: 'modified',
  D: 'deleted',
  R: 'renamed',
  T: 'type changed',
}

/** `--raw -z`: `:mode mode id id status NUL path NUL`, with a second path where a file was renamed. */
function statsOf(raw: string, numstat: string): FileStat[] {
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

/** `--numstat -z`: `additions TAB deletions TAB path NUL`; of a renamed file the path is empty and two follow. */
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
