import { posix } from 'node:path'
import type { SessionFsProvider } from '@github/copilot-sdk'
import type { SessionFiles } from '../agent.ts'

/** Virtual path of the session for the agent runtime. It does not exist on disk. */
export const SESSION_ROOT = '/session'

/**
 * Keeps the session files in memory, so that a conversation leaves no trace on disk and can be moved to another process.
 * The runtime uses absolute paths below the root; they are stored as relative paths.
 */
export class MemorySessionFs implements SessionFsProvider {
  readonly #files = new Map<string, string>()
  readonly #folders = new Set<string>()
  #changedAt = new Date(0).toISOString()

  constructor(files: SessionFiles = new Map()) {
    for (const [path, bytes] of files) this.#files.set(keyOf(path), new TextDecoder().decode(bytes))
  }

  export(): Map<string, Uint8Array> {
    const encoder = new TextEncoder()
    return new Map([...this.#files].sort().map(([path, text]) => [path, encoder.encode(text)]))
  }

  /** The text of a file. Undefined if it does not exist. */
  textOf(path: string): string | undefined {
    return this.#files.get(keyOf(path))
  }

  async readFile(path: string): Promise<string> {
    const text = this.#files.get(keyOf(path))
    if (text === undefined) throw notFound(path)
    return text
  }

  async writeFile(path: string, content: string): Promise<void> {
    this.#files.set(keyOf(path), content)
    this.#touch()
  }

  async appendFile(path: string, content: string): Promise<void> {
    await this.writeFile(path, (this.#files.get(keyOf(path)) ?? '') + content)
  }

  async exists(path: string): Promise<boolean> {
    return this.#files.has(keyOf(path)) || this.#isFolder(keyOf(path))
  }

  async stat(path: string) {
    const text = this.#files.get(keyOf(path))
    if (text === undefined && !this.#isFolder(keyOf(path))) throw notFound(path)
    return {
      isFile: text !== undefined,
      isDirectory: text === undefined,
      size: text === undefined ? 0 : Buffer.byteLength(text),
      mtime: this.#changedAt,
      birthtime: this.#changedAt,
    }
  }

  async mkdir(path: string): Promise<void> {
    this.#folders.add(keyOf(path))
  }

  async readdir(path: string): Promise<string[]> {
    return (await this.readdirWithTypes(path)).map((entry) => entry.name)
  }

  async readdirWithTypes(path: string) {
    const key = keyOf(path)
    if (!this.#isFolder(key)) throw notFound(path)
    const prefix = key === '' ? '' : `${key}/`
    const children = this.#known().filter((known) => known !== key && known.startsWith(prefix))
    const names = new Set(children.map((known) => known.slice(prefix.length).split('/')[0] ?? ''))
    return [...names].map((name) => ({ name, type: this.#isFolder(prefix + name) ? FOLDER : FILE }))
  }

  async rm(path: string, recursive: boolean, force: boolean): Promise<void> {
    const key = keyOf(path)
    const doomed = this.#known().filter(
      (known) => known === key || (recursive && known.startsWith(`${key}/`)),
    )
    if (doomed.length === 0 && !force) throw notFound(path)
    for (const known of doomed) {
      this.#files.delete(known)
      this.#folders.delete(known)
    }
    this.#touch()
  }

  async rename(from: string, to: string): Promise<void> {
    const text = await this.readFile(from)
    this.#files.delete(keyOf(from))
    await this.writeFile(to, text)
  }

  #isFolder(key: string): boolean {
    if (key === '' || this.#folders.has(key)) return true
    return this.#known().some((known) => known.startsWith(`${key}/`))
  }

  #known(): string[] {
    return [...this.#folders, ...this.#files.keys()]
  }

  #touch(): void {
    this.#changedAt = new Date().toISOString()
  }
}

const FILE = 'file' as const
const FOLDER = 'directory' as const

const keyOf = (path: string): string => posix.relative(SESSION_ROOT, posix.resolve(SESSION_ROOT, path))

/** The SDK recognises a missing file by this code. */
const notFound = (path: string) => Object.assign(new Error(`no such file: ${path}`), { code: 'ENOENT' })
