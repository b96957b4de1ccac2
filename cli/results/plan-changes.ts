import { SETTINGS_FILE } from '../../contracts/policy.ts'
import type { ChangedFile, FileVersion, RunDiff } from '../../contracts/results.ts'
import { handOffKind } from '../../policies/agent/hand-off.ts'
import { FileFault } from '../../runtime/workspace/file-fault.ts'
import { isGitDirectory, isGitOrHeldName } from '../../runtime/workspace/git/git-names.ts'
import { parentOf, parsePath, type WorkspacePath } from '../../runtime/workspace/parse-path.ts'
import type { Tree } from '../../runtime/workspace/tree.ts'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { visible } from '../terminal/visible.ts'
import { isSameVersion, type LocalFile, namesIn, readLocal } from './local-file.ts'

/** One path that changes. Without `after`, the file is deleted. */
export interface Change {
  readonly path: WorkspacePath
  readonly before: FileVersion | undefined
  readonly after: FileVersion | undefined
  readonly local: LocalFile
}

export interface Plan {
  readonly changes: readonly Change[]
  /** The user changed the same files. */
  readonly conflicts: readonly string[]
  /** Something of the user is where the run adds a file. */
  readonly overlapping: readonly string[]
  /** Left out. */
  readonly handOff: readonly string[]
  readonly links: readonly string[]
  /** Paths that already are as after the run. */
  readonly unchanged: readonly string[]
}

type Side = { readonly path: string; readonly before?: FileVersion; readonly after?: FileVersion }

const refusal = (message: string): CliError =>
  new CliError(message, {
    status: EXIT.refused,
    hint: 'Nothing was changed. "agentweaver pull" downloads all files.',
  })

type Verdict = 'apply' | 'unchanged' | 'conflict' | 'overlapping' | 'hand-off' | 'link'

/** Compares the changes of a run, which an agent made, with the user's folder. Writes nothing. */
export async function planChanges(
  tree: Tree,
  diff: RunDiff,
  { includeHandOff }: { readonly includeHandOff: boolean },
): Promise<Plan> {
  const [problem] = diff.fileCount === 0 ? diff.problems : []
  if (problem !== undefined) throw refusal(visible(problem))
  if (diff.files.length < diff.fileCount) throw refusal('The run changed more files than a diff can list.')
  const reported = new Set(diff.handOff.map(({ path }) => path))
  const isLeftOut = (path: string) => !includeHandOff && (reported.has(path) || isHandOff(path))
  const judged: { change: Change; verdict: Verdict }[] = []
  for (const { path: text, before, after } of diff.files.flatMap(sidesOf)) {
    const path = pathIn(text)
    const change = { path, before, after, local: await readLocal(tree, path) }
    judged.push({ change, verdict: isLeftOut(text) ? 'hand-off' : verdictOf(change) })
  }
  const having = (wanted: Verdict) => judged.flatMap((one) => (one.verdict === wanted ? [one.change] : []))
  const pathsOf = (wanted: Verdict) => having(wanted).map(({ path }) => path.text)
  const changes = having('apply')
  refuseRepositories(tree, changes)
  return {
    changes,
    conflicts: pathsOf('conflict'),
    overlapping: pathsOf('overlapping'),
    handOff: pathsOf('hand-off'),
    links: pathsOf('link'),
    unchanged: pathsOf('unchanged'),
  }
}

/** A renamed file is a new one and a deleted one. */
function sidesOf({ path, from, before, after }: ChangedFile): Side[] {
  if (!before && !after) throw refusal('The service does not say what the files were before the run.')
  if (from === undefined) return [{ path, ...(before && { before }), ...(after && { after }) }]
  return [
    { path, ...(after && { after }) },
    { path: from, ...(before && { before }) },
  ]
}

function pathIn(text: string): WorkspacePath {
  try {
    const path = parsePath(text)
    if (path.names.length > 0 && path.text === text && !path.names.some(isGitOrHeldName)) return path
  } catch (error) {
    if (!(error instanceof FileFault)) throw error
  }
  throw refusal(`The run changed a path that is not written on this machine: ${visible(text)}`)
}

/** These files decide what the next upload of the folder contains. */
const IGNORE_FILES: ReadonlySet<string> = new Set(['.gitignore', '.agentweaverignore'])

/** A file system may ignore case. */
const isHandOff = (path: string): boolean =>
  path.toLowerCase() === SETTINGS_FILE.path ||
  IGNORE_FILES.has(path.toLowerCase().split('/').at(-1) ?? '') ||
  handOffKind(path) !== undefined ||
  handOffKind(path.toLowerCase()) !== undefined

function verdictOf({ before, after, local }: Change): Verdict {
  if (before?.mode === 'link' || after?.mode === 'link') return 'link'
  const isMine = before ? 'conflict' : 'overlapping'
  if (local.kind === 'other') return isMine
  const version = local.kind === 'file' ? local.version : undefined
  if (isSameVersion(version, after)) return 'unchanged'
  return isSameVersion(version, before) ? 'apply' : isMine
}

/** Git would treat a folder with these names as a repository, and obey the configuration in it. */
function refuseRepositories(tree: Tree, changes: readonly Change[]): void {
  for (const { folder, names } of addedNames(changes)) {
    const there = namesIn(tree, folder)
    if (!isGitDirectory(there) && isGitDirectory([...there, ...names]))
      throw refusal(`The changes would make ${visible(folder.text)} a git repository, which git obeys.`)
  }
}

/** Every folder with the names that it gets. */
function addedNames(changes: readonly Change[]) {
  const added = new Map<string, { folder: WorkspacePath; names: Set<string> }>()
  const written = changes.filter(({ after }) => after).flatMap(({ path }) => withParents(path))
  for (const path of written) {
    const folder = parentOf(path)
    const known = added.get(folder.text) ?? { folder, names: new Set<string>() }
    known.names.add(path.names.at(-1) ?? '')
    added.set(folder.text, known)
  }
  return added.values()
}

const withParents = (path: WorkspacePath): WorkspacePath[] =>
  path.names.length === 0 ? [] : [...withParents(parentOf(path)), path]
