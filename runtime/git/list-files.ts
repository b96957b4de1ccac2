import { SandboxError } from '../kit/errors.ts'
import type { ByteName } from '../workspace/git/folder-names.ts'
import { type GitOutput, type GitSession, NO_GIT, OUT } from './git-sandbox.ts'

/** Git's view of a folder. Paths are bytes, one character each. */
export interface ListedFiles {
  /** The commit of HEAD, if any. */
  readonly head: string | undefined
  /** Entries of HEAD's tree, by path. */
  readonly tree: ReadonlyMap<ByteName, TreeItem>
  /** Object ids in the index, by path. */
  readonly index: ReadonlyMap<ByteName, string>
  /** Untracked files and folders that git ignores. A folder entry covers everything below it. */
  readonly ignored: { readonly files: ReadonlySet<ByteName>; readonly folders: ReadonlySet<ByteName> }
  /** Commits of all refs. */
  readonly tips: readonly string[]
  /** Whether tracked files differ from HEAD, or untracked files exist. */
  readonly isDirty: boolean
}

export interface TreeItem {
  readonly mode: string
  readonly id: string
}

const TIMEOUT_MS = 120_000
const MAX_BYTES = 536_870_912

const LIST = `
export GIT_DIR=/run/base GIT_WORK_TREE=/workspace
cd /workspace || exit 1
git rev-parse -q --verify 'HEAD^{commit}' >${OUT}/head || : >${OUT}/head
if [ -s ${OUT}/head ]; then git ls-tree -r -z --full-tree HEAD >${OUT}/tree || exit 1; fi
git ls-files -s -z >${OUT}/index || exit 1
git for-each-ref --format='%(objectname)' >${OUT}/tips || exit 1
git ls-files -z -o -i --exclude-standard --directory >${OUT}/ignored || exit 1
git status --porcelain --ignore-submodules=all --no-renames | head -c 1024 >${OUT}/status
`

/**
 * Nested repositories have their own ignore rules. An empty index is used, because their tracked files are not
 * known here.
 */
const LIST_NESTED = `
list_nested() {
  (cd "/workspace/$1" && GIT_WORK_TREE="/workspace/$1" GIT_INDEX_FILE=/tmp/none \\
    git ls-files -z -o -i --exclude-standard --directory) >${OUT}/nested-"$2" || :
}
`

const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`

/**
 * Queries the git directory mounted at `/run/base`, which no agent has written. `nested` lists the paths of
 * nested repositories. Throws `workspace_invalid` with git's error output if git cannot read the repository.
 */
export async function listFiles(
  git: GitSession,
  nested: readonly string[],
): Promise<ListedFiles | undefined> {
  const script = [
    LIST,
    ...(nested.length > 0 ? [LIST_NESTED] : []),
    ...nested.map((path, index) => `list_nested ${quoted(path)} ${index}\n`),
    'exit 0',
  ]
  const output = await git.run({ script: script.join(''), timeoutMs: TIMEOUT_MS })
  if (output.exitCode === NO_GIT) return undefined
  if (output.exitCode !== 0)
    throw new SandboxError('workspace_invalid', `git cannot read the repository: ${output.stderr}`)
  return {
    head: (await textOf(output, 'head')).trim() || undefined,
    tree: new Map((await linesOf(output, 'tree')).map(parseTreeLine)),
    index: new Map((await linesOf(output, 'index')).map(parseIndexLine)),
    tips: [...new Set((await textOf(output, 'tips')).split('\n').filter(Boolean))],
    ignored: await ignoredOf(output, nested),
    isDirty: (await textOf(output, 'status')) !== '',
  }
}

const textOf = async (output: GitOutput, name: string) =>
  (await output.read(name, MAX_BYTES))?.toString('latin1') ?? ''

const linesOf = async (output: GitOutput, name: string) =>
  (await textOf(output, name)).split('\0').filter(Boolean)

async function ignoredOf(output: GitOutput, nested: readonly string[]): Promise<ListedFiles['ignored']> {
  const files = new Set<ByteName>()
  const folders = new Set<ByteName>()
  const add = (path: ByteName) => (path.endsWith('/') ? folders.add(path.slice(0, -1)) : files.add(path))
  for (const path of await linesOf(output, 'ignored')) add(path)
  for (const [index, root] of nested.entries())
    for (const path of await linesOf(output, `nested-${index}`))
      add(`${Buffer.from(root).toString('latin1')}/${path}`)
  return { files, folders }
}

/** `mode type id TAB path` */
function parseTreeLine(line: string): readonly [ByteName, TreeItem] {
  const tab = line.indexOf('\t')
  const [mode = '', , id = ''] = line.slice(0, tab).split(' ')
  return [line.slice(tab + 1), { mode, id }]
}

/** `mode id stage TAB path` */
function parseIndexLine(line: string): readonly [ByteName, string] {
  const tab = line.indexOf('\t')
  return [line.slice(tab + 1), line.slice(0, tab).split(' ')[1] ?? '']
}
