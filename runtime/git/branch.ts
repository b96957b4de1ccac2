import type { ByteName } from '../workspace/git/folder-names.ts'
import { type GitSession, IN, OUT } from './git-sandbox.ts'
import type { TreeItem } from './list-files.ts'
import { RESULT_LIMITS, RESULT_MOUNTS, type ResultParts, said, toText } from './results.ts'

/** The run's commits as a bundle with one ref, `refs/agentweaver/<run>`. */
export interface MadeBranch {
  readonly bundle: Buffer
  readonly tip: string
  readonly commits: number
  /** Branches that the run created or moved and that are not in the bundle. */
  readonly otherBranches: readonly string[]
}

export type Branch =
  | { readonly kind: 'branch'; readonly branch: MadeBranch; readonly problem?: string }
  | { readonly kind: 'nothing' }

const OID = /^[0-9a-f]{40}(?:[0-9a-f]{24})?$/
const MAX_NAMES = 16

/** Reads HEAD and the branches of the run's own git directory. */
const READ_RUN = `
agent() { GIT_DIR=${RESULT_MOUNTS.agent} git "$@"; }
agent rev-parse -q --verify 'HEAD^{commit}' >${OUT}/tip || : >${OUT}/tip
agent for-each-ref --format='%(objectname) %(refname)' refs/heads | head -c 1048576 >${OUT}/heads
`

/**
 * Stores the changed files as objects, with the line ends and encodings that the repository asks for. No
 * configuration is loaded that could name a filter.
 */
const CONVERT = `
export GIT_DIR=${RESULT_MOUNTS.result}
(cd /workspace && GIT_WORK_TREE=/workspace xargs -0 -r git hash-object -w -- <${IN}/convert) >${OUT}/converted
echo $? >${OUT}/converted-status
`

const TREE_OF_RUN = `
tip=$(cat ${OUT}/tip)
if [ -n "$tip" ]; then
  GIT_ALTERNATE_OBJECT_DIRECTORIES=${RESULT_MOUNTS.agent}/objects git ls-tree -r -z --full-tree "$tip" >${OUT}/tree || : >${OUT}/tip
fi
exit 0
`

const MAKE = `
export GIT_DIR=${RESULT_MOUNTS.result} GIT_INDEX_FILE=/tmp/branch
export GIT_ALTERNATE_OBJECT_DIRECTORIES=${RESULT_MOUNTS.agent}/objects
export GIT_AUTHOR_NAME=Agentweaver GIT_AUTHOR_EMAIL=agentweaver@localhost
export GIT_COMMITTER_NAME=Agentweaver GIT_COMMITTER_EMAIL=agentweaver@localhost
ulimit -f ${RESULT_LIMITS.bundleBytes / 512}
git update-index -z --index-info <${IN}/entries && tree=$(git write-tree) || exit 1
commit=$PARENT
if [ -z "$PARENT" ] || [ "$tree" != "$(git rev-parse "$PARENT^{tree}")" ]; then
  commit=$(git commit-tree "$tree" \${PARENT:+-p "$PARENT"} -F ${IN}/message) || exit 1
fi
echo "$commit" >${OUT}/commit
git rev-list --count "$commit" --stdin <${IN}/known >${OUT}/count || exit 1
[ "$(cat ${OUT}/count)" = 0 ] && exit 0
git update-ref "$REF" "$commit" || exit 1
{ echo "$REF"; cat ${IN}/known; } | git bundle create ${OUT}/bundle --stdin && exit 0
echo 'git could not write the bundle. At most ${RESULT_LIMITS.bundleBytes / 1024 ** 2} MiB are taken' >&2
exit 1
`

export const branchRef = (runId: string) => `refs/agentweaver/${runId}`

/**
 * Creates one branch with the run's commits and, as a last commit, its uncommitted changes. Files that the run
 * did not change are as in HEAD: the user's uncommitted changes are not part of the branch.
 */
export async function makeBranch(git: GitSession, parts: ResultParts): Promise<Branch> {
  const own = await readRun(git, parts)
  const withCommits = own.tip === undefined ? undefined : await tryMake(git, parts, own)
  if (withCommits?.ok) return withCommits.branch
  // If the run's commits cannot be used, its files are still available, so they become one commit on HEAD.
  const onHead = { ...own, tip: parts.head, tree: parts.tree }
  const made = await tryMake(git, parts, onHead)
  if (!made.ok) throw new Error(made.problem)
  const isLost = own.tip !== parts.head || withCommits !== undefined
  if (made.branch.kind === 'nothing' || !isLost) return made.branch
  const why = withCommits?.ok === false ? withCommits.problem : 'its HEAD names no commit'
  return {
    ...made.branch,
    problem: `The commits of the run could not be read (${why}); its changes are one commit.`,
  }
}

/** The state of the run's git directory, and the object ids of the changed files. */
type OwnState = {
  readonly tip: string | undefined
  readonly tree: ReadonlyMap<ByteName, TreeItem>
  readonly converted: ReadonlyMap<ByteName, string>
  readonly otherBranches: readonly string[]
}

async function readRun(git: GitSession, parts: ResultParts): Promise<OwnState> {
  const files = branchChanges(parts).filter(({ after }) => after && after.mode !== '120000')
  await git.write('convert', files.map(({ path }) => `${path}\0`).join(''))
  const script = READ_RUN + CONVERT + TREE_OF_RUN
  const output = await git.run({ script, timeoutMs: RESULT_LIMITS.timeoutMs })
  const read = async (name: string) =>
    (await output.read(name, RESULT_LIMITS.listBytes))?.toString('latin1') ?? ''
  const ids = (await read('converted')).split('\n').filter(Boolean)
  const isWhole = (await read('converted-status')).trim() === '0' && ids.length === files.length
  const tip = output.exitCode === 0 ? (await read('tip')).trim() : ''
  return {
    tip: OID.test(tip) ? tip : undefined,
    tree: parseTree(await read('tree')),
    converted: new Map(isWhole ? files.map(({ path }, index) => [path, ids[index] ?? '']) : []),
    otherBranches: otherBranches(await read('heads'), new Set([...parts.tips, tip])),
  }
}

/** `mode type id TAB path NUL` */
function parseTree(text: string): Map<ByteName, TreeItem> {
  const lines = text.split('\0').filter(Boolean)
  return new Map(
    lines.map((line) => {
      const tab = line.indexOf('\t')
      const [mode = '', , id = ''] = line.slice(0, tab).split(' ')
      return [line.slice(tab + 1), { mode, id }]
    }),
  )
}

export function otherBranches(heads: string, known: ReadonlySet<string>): string[] {
  const lines = heads.split('\n').filter(Boolean)
  const moved = lines.filter((line) => !known.has(line.slice(0, line.indexOf(' '))))
  return moved
    .slice(0, MAX_NAMES)
    .map((line) => toText(line.slice(line.indexOf(' ') + 1).replace('refs/heads/', '')))
}

/** Excludes changes in nested repositories: they have their own commits, which this branch cannot contain. */
function branchChanges({ changes, nested }: ResultParts) {
  const roots = nested.map((path) => `${Buffer.from(path).toString('latin1')}/`)
  return changes.filter(({ path }) => !roots.some((root) => path.startsWith(root)))
}

/**
 * The tree of the branch: HEAD before the run, plus the run's changes. If the run committed a file that it did
 * not change, or an ignored file, the committed version is used.
 */
function entriesOf(parts: ResultParts, { tree, converted }: OwnState): string {
  const changed = branchChanges(parts)
  const touched = new Set(changed.map(({ path }) => path))
  const committed = [...tree].filter(([path]) => !parts.tree.has(path) && !touched.has(path))
  const kept = [...parts.tree].filter(([path]) => !touched.has(path))
  const written = changed.flatMap(({ path, after }) => {
    const id = after && (converted.get(path) ?? (after.isKept ? after.id : undefined))
    if (after && id) return [[path, { mode: after.mode, id }] as const]
    // The content could not be stored, so the file keeps its previous version.
    const before = after && parts.tree.get(path)
    return before ? [[path, before] as const] : []
  })
  return [...kept, ...committed, ...written]
    .map(([path, { mode, id }]) => `${mode} ${id}\t${path}\0`)
    .join('')
}

type Tried = { readonly ok: true; readonly branch: Branch } | { readonly ok: false; readonly problem: string }

async function tryMake(git: GitSession, parts: ResultParts, own: OwnState): Promise<Tried> {
  const known = parts.tips.concat(parts.head ?? [])
  await git.write('entries', entriesOf(parts, own))
  await git.write('known', known.map((tip) => `^${tip}\n`).join(''))
  await git.write('message', `Uncommitted changes of ${parts.runId}\n`)
  const output = await git.run({
    script: MAKE,
    environment: { PARENT: own.tip ?? '', REF: branchRef(parts.runId) },
    timeoutMs: RESULT_LIMITS.timeoutMs,
  })
  const read = async (name: string) => (await output.read(name, 256))?.toString('latin1').trim() ?? ''
  const [tip, count] = [await read('commit'), await read('count')]
  if (output.exitCode !== 0 || !OID.test(tip)) return { ok: false, problem: said(output) }
  if (count === '0') return { ok: true, branch: { kind: 'nothing' } }
  const bundle = await output.read('bundle', RESULT_LIMITS.bundleBytes)
  if (!bundle) return { ok: false, problem: said(output) }
  const { otherBranches } = own
  return {
    ok: true,
    branch: { kind: 'branch', branch: { bundle, tip, commits: Number(count), otherBranches } },
  }
}
