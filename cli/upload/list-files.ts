import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { isGitName } from '../../runtime/workspace/git/git-names.ts'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import type { IsolatedGit } from '../program-call/isolated-git.ts'
import { ignoresOfUser, makeUploadGit, type UploadGit, writeIndexInfo } from './upload-git.ts'

/** Paths relative to the folder. */
export interface ListedFiles {
  readonly paths: readonly string[]
  readonly untracked: ReadonlySet<string>
  /** Repositories inside the folder. Their files are listed, and their history is not uploaded. */
  readonly nested: readonly string[]
  /** Names that no archive of this product may contain. */
  readonly unnameable: readonly string[]
}

export interface Listing {
  readonly folder: string
  readonly git: UploadGit
  readonly scratch: string
  readonly home: string | undefined
  /** Whether a path below the folder is a folder, and no link is on the way to it. */
  readonly isFolder: (path: string) => boolean
}

export const IGNORE_FILE = '.agentweaverignore'
const MAX_NESTED = 100

/** Lists the files of a folder that git tracks or does not ignore. Leaves out the files that `.agentweaverignore` names. */
export async function listFiles(run: IsolatedGit, listing: Listing): Promise<ListedFiles> {
  const ignores = await ignoresOfUser(run, listing.home)
  const found = new Found()
  const folders = [{ path: '', git: listing.git }]
  for (let at = folders.pop(); at; at = folders.pop()) {
    const listed = await listOne(run, { ...listing, ...at, ignores })
    const prefix = at.path === '' ? '' : `${at.path}/`
    found.add(prefix, listed)
    for (const path of listed.nested.map((name) => `${prefix}${name}`).filter(listing.isFolder)) {
      if (found.nested.push(path) > MAX_NESTED)
        throw new CliError(`The folder contains more than ${MAX_NESTED} repositories.`, {
          status: EXIT.usage,
        })
      folders.push({ path, git: await gitOfNested(run, listing, found.nested) })
    }
  }
  return { ...found, paths: await keptPaths(run, listing, found.paths) }
}

class Found {
  readonly paths: string[] = []
  readonly untracked = new Set<string>()
  readonly nested: string[] = []
  readonly unnameable: string[] = []

  add(prefix: string, { tracked, untracked }: Pick<Listed, 'tracked' | 'untracked'>): void {
    for (const path of [...tracked, ...untracked].map((name) => `${prefix}${name}`)) {
      if (path.includes('\ufffd') || path.split('/').some(isGitName)) this.unnameable.push(path)
      else this.paths.push(path)
    }
    for (const path of untracked) this.untracked.add(`${prefix}${path}`)
  }
}

/** A git directory without history, for the rules of a repository inside the folder. */
async function gitOfNested(
  run: IsolatedGit,
  { folder, scratch }: Listing,
  nested: readonly string[],
): Promise<UploadGit> {
  const path = nested.at(-1) ?? ''
  const own = join(scratch, `nested-${nested.length}`)
  await mkdir(own)
  return makeUploadGit(run, { folder: join(folder, path), scratch: own, wantsHistory: false, isNested: true })
}

type Listed = {
  readonly tracked: readonly string[]
  readonly untracked: readonly string[]
  readonly nested: readonly string[]
}

async function listOne(
  run: IsolatedGit,
  { folder, path, git, ignores }: Listing & { readonly path: string; readonly ignores: readonly string[] },
): Promise<Listed> {
  const at = join(folder, path)
  const ask = async (...args: string[]) => {
    const call = ['-C', at, `--git-dir=${git.directory}`, `--work-tree=${path === '' ? git.root : at}`]
    const { status, stdout, stderr } = await run([...ignores, ...call, 'ls-files', '-z', ...args])
    if (status !== 0)
      throw new CliError(`The files of ${at} cannot be listed: ${stderr.trim()}`, { status: EXIT.runFailed })
    return stdout.split('\0').filter(Boolean)
  }
  const staged = await ask('--stage')
  const untracked = await ask('--others', '--exclude-standard')
  const isLink = (line: string) => line.startsWith('160000 ')
  const nameOf = (line: string) => line.slice(line.indexOf('\t') + 1)
  return {
    tracked: [...new Set(staged.filter((line) => !isLink(line)).map(nameOf))],
    untracked: untracked.filter((name) => !name.endsWith('/')),
    nested: [
      ...staged.filter(isLink).map(nameOf),
      ...untracked.filter((name) => name.endsWith('/')).map((name) => name.slice(0, -1)),
    ],
  }
}

/** The paths that no `.agentweaverignore` names. Git applies its rules to an index of exactly these paths. */
async function keptPaths(
  run: IsolatedGit,
  { folder, scratch }: Listing,
  paths: readonly string[],
): Promise<readonly string[]> {
  if (!paths.some((path) => path === IGNORE_FILE || path.endsWith(`/${IGNORE_FILE}`))) return paths
  const directory = join(scratch, 'ignore')
  const list = join(scratch, 'paths')
  await writeIndexInfo(list, paths)
  const at = [`--git-dir=${directory}`, `--work-tree=${folder}`]
  const calls = [
    await run(['init', '--quiet', '--bare', '--template=', directory]),
    await run([...at, 'update-index', '-z', '--index-info'], { inputFile: list }),
    await run(['-C', folder, ...at, 'ls-files', '-z', '-c', '-i', `--exclude-per-directory=${IGNORE_FILE}`]),
  ]
  const failed = calls.find(({ status }) => status !== 0)
  if (failed)
    throw new CliError(`The rules of ${IGNORE_FILE} cannot be applied: ${failed.stderr.trim()}`, {
      status: EXIT.runFailed,
    })
  const left = new Set(calls.at(-1)?.stdout.split('\0'))
  return paths.filter((path) => !left.has(path))
}
