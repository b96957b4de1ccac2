import { closeSync, constants, openSync } from 'node:fs'
import { mkdir, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { FolderMode } from '../../contracts/api.ts'
import type { GitEntry, WorkspaceLayout } from '../../contracts/workspace-layout.ts'
import { SandboxError } from '../kit/errors.ts'
import { type CleanConfig, cleanConfig } from './clean-config.ts'
import { type ConfigEntry, type GitUser, readConfiguration } from './configuration.ts'
import { type CopiedTree, type CopyLimits, copyTree } from './copy-tree.ts'
import { findEnclosingGit, findGit, type Repository } from './find-git.ts'
import type { RunGit } from './git-sandbox.ts'
import { type ListedFiles, listFiles } from './list-files.ts'
import { findNamedFiles } from './named-files.ts'
import { findInnerGit, type InnerGit, type NestedGit, refused } from './nested-git.ts'
import { makePlaceholder, removePlaceholders } from './placeholders.ts'
import { makePrivateGit } from './private-git.ts'
import { kindOf, NotData, readData } from './read-data.ts'
import { type FolderRecord, folderFiles, type Placeholder, writeBase } from './run-folder.ts'
import { ignoredIn, takeSnapshot } from './snapshot.ts'

export interface FolderRequest {
  readonly runId: string
  /** Real path of the user's folder. */
  readonly path: string
  readonly mode: FolderMode
  /** A folder of the service, used by this run only. */
  readonly directory: string
  /** The user whose git configuration applies. */
  readonly user: GitUser
  /** Undefined if this machine cannot isolate git. */
  readonly runGit: RunGit | undefined
  readonly signal?: AbortSignal | undefined
}

export interface PreparedFolder {
  readonly record: FolderRecord
  /** Set for isolated runs. */
  readonly copied?: CopiedTree
  /** Whether the folder has uncommitted changes. */
  readonly hasUncommittedChanges: boolean
}

/** Larger than any source tree with its dependencies. A larger copy is rejected with an error. */
const COPY_LIMITS: CopyLimits = { maxEntries: 500_000, maxBytes: 16 * 1024 ** 3 }
const MAX_EXCLUDES_BYTES = 1_048_576
/** Folders that are ignored in a project without git. */
const DEPENDENCIES = ['node_modules/', '.venv/', 'venv/', '__pycache__/', '.tox/', 'vendor/bundle/']

const OBJECTS = (number: number) => `/run/git-objects/${number}`
const GIT = (number: number) => `/run/git/${number}`

/**
 * Prepares a run on a user's folder: the copy for an isolated run, private git directories, read-only mounts
 * over parts of the user's folder, and the snapshot that the results are compared with.
 */
export async function prepareFolder(request: FolderRequest): Promise<PreparedFolder> {
  const preparing = new Preparing(request)
  try {
    return await preparing.prepare()
  } catch (error) {
    await preparing.undo()
    throw error instanceof NotData ? unreadable(request.path, error) : error
  }
}

const unreadable = (path: string, cause: NotData) =>
  new SandboxError('workspace_invalid', `${path} cannot be the workspace of a run: ${cause.message}`, {
    cause,
  })

type Config = Extract<CleanConfig, { ok: true }> & {
  readonly entries: readonly ConfigEntry[]
  /** The root of the working tree that the configuration applies to: the folder, or one above it. */
  readonly worktree: string
}

class Preparing {
  readonly #request: FolderRequest
  readonly #files: ReturnType<typeof folderFiles>
  readonly #placeholders: Placeholder[] = []
  readonly #readOnly = new Set<string>()
  readonly #mounts: WorkspaceLayout['mounts'] = []
  /** The repositories' objects, mounted read-only for the service's own git scripts. */
  readonly #objectMounts: WorkspaceLayout['mounts'] = []
  #isDirty = false

  constructor(request: FolderRequest) {
    this.#request = request
    this.#files = folderFiles(request.directory)
  }

  async prepare(): Promise<PreparedFolder> {
    const { runId, path, mode, directory } = this.#request
    await mkdir(directory, { recursive: true, mode: 0o700 })
    const repository = await this.#ownRepository()
    if (this.#request.runGit === undefined) return this.#withoutIsolation()
    const config = await this.#readConfig(path, repository)
    const inner = await findInnerGit(path)
    const copied = mode === 'isolated' ? await this.#copy() : undefined
    const root = mode === 'isolated' ? this.#files.copy : path
    await this.#makeGit({ number: 0, path: '', repository, config, root })
    for (const [index, nested] of inner.nested.entries()) await this.#makeNested(nested, index + 1, root)
    if (mode === 'in-place') await this.#guard(inner, config)
    const layout = await this.#layout(root, mode === 'in-place' ? inner.entries : undefined)
    const record: FolderRecord = {
      runId,
      path,
      mode,
      root,
      layout,
      placeholders: this.#placeholders,
      gitEntries: inner.entries,
      ...(await this.#takeBase({ root, repository, config, nested: inner.nested.map((one) => one.path) })),
    }
    await writeFile(this.#files.record, JSON.stringify(record))
    return { record, hasUncommittedChanges: this.#isDirty, ...(copied && { copied }) }
  }

  /** Removes everything that was created, after a failed preparation. */
  async undo(): Promise<void> {
    const { path, mode, directory } = this.#request
    await removePlaceholders(mode === 'in-place' ? path : this.#files.copy, this.#placeholders)
    await rm(directory, { recursive: true, force: true })
  }

  /**
   * Without isolation nothing can be mounted over the folder. File tools refuse git's own files, and new git
   * directories are renamed.
   */
  async #withoutIsolation(): Promise<PreparedFolder> {
    const { runId, path } = this.#request
    const gitEntries = [...(await findInnerGit(path)).entries]
    const layout = { mounts: [], readOnly: [], environment: {}, gitEntries }
    const problem = 'nothing isolates git on this machine'
    const record = {
      runId,
      path,
      mode: 'in-place',
      root: path,
      layout,
      placeholders: [],
      gitEntries,
      problem,
    } as const
    await writeFile(this.#files.record, JSON.stringify(record))
    return { record, hasUncommittedChanges: false }
  }

  async #ownRepository(): Promise<Repository | undefined> {
    const { path } = this.#request
    const git = await findGit(path)
    if (git.kind === 'refused') throw refused(path, git.reason)
    return git.kind === 'repository' ? git : undefined
  }

  /**
   * Without git or a sandbox for it, no configuration is read, and the private directory contains only the
   * service's settings.
   */
  async #readConfig(folder: string, repository: Repository | undefined): Promise<Config> {
    const { user, runGit } = this.#request
    const scratch = this.#files.scratch
    const enclosing = repository ? undefined : await findEnclosingGit(folder)
    const isNeeded = runGit && (repository || enclosing || (await hasUserConfig(user)))
    const shown = enclosing?.root ?? folder
    const isRepository = (repository ?? enclosing) !== undefined
    const place = { folder, shown, isRepository, repository, user, scratch }
    const entries = (isNeeded ? await readConfiguration(runGit, place) : undefined) ?? []
    const own = repository
      ? entries
      : entries.filter(({ scope }) => scope !== 'local' && scope !== 'worktree')
    const config = cleanConfig(own)
    if (!config.ok) throw refused(folder, config.reason)
    return { ...config, entries, worktree: shown }
  }

  async #copy(): Promise<CopiedTree> {
    const { path, signal } = this.#request
    await mkdir(this.#files.copy, { mode: 0o700 })
    const root = openSync(path, FOLDER)
    const copy = openSync(this.#files.copy, FOLDER)
    try {
      return await copyTree(root, copy, { limits: COPY_LIMITS, signal })
    } finally {
      closeSync(root)
      closeSync(copy)
    }
  }

  async #makeNested({ path, repository }: NestedGit, number: number, root: string): Promise<void> {
    const config = await this.#readConfig(join(this.#request.path, path), repository)
    await this.#makeGit({ number, path, repository, config, root })
    if (this.#request.mode === 'in-place') await this.#guardNamed(config)
  }

  /** Creates a private git directory and its mounts. */
  async #makeGit({ number, path, repository, config, root }: NewGit): Promise<void> {
    const directory = this.#files.privateGit(number)
    await makePrivateGit({
      directory,
      repository,
      config: config.text,
      objects: OBJECTS(number),
      excludes: await this.#excludes(config.entries, repository),
    })
    if (repository) {
      const objects = join(repository.commonDir, 'objects')
      this.#objectMounts.push({ source: objects, target: OBJECTS(number), writable: false })
    }
    const entry = path === '' ? '.git' : `${path}/.git`
    const kind = await kindOf(join(root, entry))
    if (kind === undefined) this.#placeholders.push(...(await makePlaceholder(root, entry, 'folder')))
    if (kind !== 'file') {
      this.#mounts.push({ source: directory, target: `/workspace/${entry}`, writable: true })
      return
    }
    // A directory cannot be mounted over a file.
    await writeFile(this.#files.gitFile(number), `gitdir: ${GIT(number)}\n`)
    this.#mounts.push(
      { source: directory, target: GIT(number), writable: true },
      { source: this.#files.gitFile(number), target: `/workspace/${entry}`, writable: false },
    )
  }

  /** The user's global ignore rules, which lie outside the folder. */
  async #excludes(entries: readonly ConfigEntry[], repository: Repository | undefined): Promise<string> {
    const { home, configHome } = this.#request.user
    const named = entries.findLast(({ key }) => key === 'core.excludesfile')?.value
    const file =
      named?.replace(/^~(?=\/)/, home) ?? join(configHome ?? join(home, '.config'), 'git', 'ignore')
    const own = file.startsWith('/')
      ? await readData(file, MAX_EXCLUDES_BYTES).catch(() => undefined)
      : undefined
    return [own?.toString('latin1') ?? '', ...(repository ? [] : DEPENDENCIES)].join('\n')
  }

  async #guard({ readOnly }: InnerGit, config: Config): Promise<void> {
    for (const path of readOnly) this.#readOnly.add(path)
    await this.#guardNamed(config)
  }

  /** Protects files that git's configuration names, because the user's next git command reads or executes them. */
  async #guardNamed({ entries, worktree }: Config): Promise<void> {
    const { path: root, user } = this.#request
    const { home } = user
    const named = await findNamedFiles(entries, { folder: worktree, root, home })
    if (!named.ok) throw refused(root, `${named.reason}. Use an isolated copy, or change that setting of git`)
    for (const { path, state } of named.paths) {
      const kind = state === 'missing folder' ? 'folder' : 'file'
      if (state !== 'there') this.#placeholders.push(...(await makePlaceholder(root, path, kind)))
      this.#readOnly.add(path)
    }
  }

  async #layout(root: string, gitEntries: readonly GitEntry[] | undefined): Promise<WorkspaceLayout> {
    const isOwn = (await stat(root)).uid === process.getuid?.()
    return {
      mounts: [...this.#objectMounts, ...this.#mounts],
      readOnly: [...this.#readOnly],
      // Git rejects a repository owned by another user. Commands run as the user of this service.
      environment: isOwn ? {} : SAFE_DIRECTORY,
      ...(gitEntries && { gitEntries: [...gitEntries] }),
    }
  }

  /** Stores the state before the run in a git directory that the run never sees. */
  async #takeBase(at: BasePlace): Promise<Pick<FolderRecord, 'git' | 'problem'>> {
    const { runGit, directory, mode, signal } = this.#request
    const { root, repository, config, nested } = at
    if (runGit === undefined) return {}
    const gitDir = this.#files.base
    const excludes = await this.#excludes(config.entries, repository)
    await makePrivateGit({
      directory: gitDir,
      repository,
      config: config.text,
      objects: OBJECTS(0),
      excludes,
    })
    const mounts = [...this.#objectMounts, { source: gitDir, target: '/run/base', writable: false }]
    const place = { workspace: root, mounts, scratch: this.#files.scratch }
    const listed = await runGit(place, (git) => listFiles(git, nested))
    if (!listed) return { problem: 'git is not installed' }
    this.#isDirty = repository !== undefined && listed.isDirty
    const snapshot = await this.#snapshot(root, listed, config)
    if (snapshot.problem !== undefined && mode === 'isolated')
      throw refused(this.#request.path, snapshot.problem)
    await writeBase(directory, { snapshot, tree: listed.tree })
    signal?.throwIfAborted()
    const { head, tips, ignored } = listed
    return {
      git: {
        format: config.format,
        isRepository: repository !== undefined,
        nested,
        ...(head !== undefined && { head }),
        tips,
        isDirty: this.#isDirty,
        ignored: { files: [...ignored.files], folders: [...ignored.folders] },
      },
      ...(snapshot.problem !== undefined && { problem: snapshot.problem }),
    }
  }

  async #snapshot(root: string, listed: ListedFiles, { format }: Config) {
    const folder = openSync(root, FOLDER)
    try {
      return await takeSnapshot(folder, {
        format,
        objects: join(this.#files.base, 'objects'),
        isIgnored: ignoredIn(listed),
        isStored: (path, id) => listed.tree.get(path)?.id === id || listed.index.get(path) === id,
        looksAtIgnored: this.#request.mode === 'in-place',
        signal: this.#request.signal,
      })
    } finally {
      closeSync(folder)
    }
  }
}

type NewGit = {
  readonly number: number
  /** Path of the nested repository; empty for the folder itself. */
  readonly path: string
  readonly repository: Repository | undefined
  readonly config: Config
  readonly root: string
}

type BasePlace = {
  readonly root: string
  readonly repository: Repository | undefined
  readonly config: Config
  readonly nested: readonly string[]
}

const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW

const SAFE_DIRECTORY = {
  GIT_CONFIG_COUNT: '1',
  GIT_CONFIG_KEY_0: 'safe.directory',
  GIT_CONFIG_VALUE_0: '*',
}

async function hasUserConfig({ home, configHome, globalConfig }: GitUser): Promise<boolean> {
  if (globalConfig !== undefined) return true
  const folder = configHome ?? join(home, '.config')
  const files = [join(home, '.gitconfig'), join(folder, 'git', 'config'), '/etc/gitconfig']
  const kinds = await Promise.all(files.map((file) => kindOf(file).catch(() => 'other' as const)))
  return kinds.some((kind) => kind !== undefined)
}
