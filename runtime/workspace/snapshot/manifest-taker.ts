import { createHash } from 'node:crypto'
import { type BigIntStats, closeSync, fstatSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { MANIFEST_LIMITS, type ManifestEntry } from '../../../contracts/workspace-manifest.ts'
import { ArchiveCounter } from '../archive/archive-counter.ts'
import type { ArchiveLimits, ArchiveSummary } from '../archive/archive-summary.ts'
import { coalesce } from '../archive/coalesce.ts'
import { type Member, type WalkOptions, walkMembers } from '../archive/walk-members.ts'
import { contentOf } from '../content.ts'
import { FileFault, toFileFault } from '../file-fault.ts'
import { regularFile, withHandleAsync } from '../handles.ts'
import { READ_FLAGS } from '../operations/read.ts'
import type { WorkspacePath } from '../parse-path.ts'
import type { Tree } from '../tree.ts'

const PIECE_BYTES = 65_536
const HASH_PIECE_BYTES = 1_048_576
/** Names between two pauses in which the process serves other requests. */
const NAMES_PER_PAUSE = 256
/**
 * A file that changed this shortly before it was read may change again without a new time: file systems store times with
 * a granularity of up to two seconds.
 */
const SETTLED_AFTER_NS = 2_000_000_000n

export interface ManifestOptions extends WalkOptions {
  readonly limits: ArchiveLimits
}

export interface PackOptions {
  readonly signal?: AbortSignal
}

type Digest = { readonly sha256: string; readonly size: number }
type Known = Digest & Pick<BigIntStats, 'dev' | 'ino' | 'mtimeNs' | 'ctimeNs'>
type Located = { readonly path: WorkspacePath; readonly size: number }

/**
 * Lists one workspace with the digest of every file. Reads only files that changed since the last manifest: their size,
 * inode, mtime or ctime is different. No program in a sandbox can set the ctime. A process that is still alive and writes
 * through a memory mapping may change a file without a new time.
 */
export class ManifestTaker {
  readonly #tree: Tree
  readonly #nowMs: () => number
  #known: ReadonlyMap<string, Known> = new Map()
  #located: ReadonlyMap<string, Located> = new Map()

  constructor(tree: Tree, { nowMs = Date.now }: { readonly nowMs?: () => number } = {}) {
    this.#tree = tree
    this.#nowMs = nowMs
  }

  /** The manifest as JSON Lines. `summary` is updated while the stream is read. */
  take(options: ManifestOptions): { chunks: AsyncIterable<Uint8Array>; summary: ArchiveSummary } {
    const counter = new ArchiveCounter(options.limits)
    return { summary: counter, chunks: coalesce(this.#lines(options, counter), PIECE_BYTES) }
  }

  async *#lines(options: ManifestOptions, counter: ArchiveCounter): AsyncGenerator<Uint8Array> {
    const known = new Map<string, Known>()
    const located = new Map<string, Located>()
    let bytes = 0
    for await (const member of walkMembers(this.#tree, options)) {
      counter.addEntry(member.path.text)
      if (counter.entries % NAMES_PER_PAUSE === 0) await nextTurn()
      const entry = await this.#entryOf(member, { known, located }, options.signal)
      if (entry.kind === 'file') counter.addBytes(entry.path, entry.size)
      const line = Buffer.from(`${JSON.stringify(entry)}\n`)
      bytes += line.length
      if (bytes > MANIFEST_LIMITS.maxBytes)
        throw new FileFault('too_large', `the manifest has more than ${MANIFEST_LIMITS.maxBytes} bytes`)
      yield line
    }
    this.#known = known
    this.#located = located
  }

  async #entryOf(
    member: Member,
    { known, located }: { readonly known: Map<string, Known>; readonly located: Map<string, Located> },
    signal: AbortSignal | undefined,
  ): Promise<ManifestEntry> {
    const { path, mode, stats } = member
    if (member.kind === 'folder') return { kind: 'folder', path: path.text, mode }
    if (member.kind === 'link') return { kind: 'link', path: path.text, target: member.target }
    const former = this.#known.get(path.text)
    const isUnchanged = former !== undefined && isSame(former, stats) && former.size === Number(stats.size)
    const { digest, trusted } = isUnchanged
      ? { digest: former, trusted: former }
      : await this.#read(path, signal)
    if (trusted) known.set(path.text, trusted)
    const { sha256, size } = digest
    located.set(sha256, { path, size })
    const mtime = Math.max(0, Math.floor(Number(stats.mtimeMs) / 1000))
    return { kind: 'file', path: path.text, mode, mtime, size, sha256 }
  }

  /** `trusted` is absent if the file could change again without a new time. */
  async #read(
    path: WorkspacePath,
    signal: AbortSignal | undefined,
  ): Promise<{ readonly digest: Digest; readonly trusted?: Known }> {
    const startedNs = BigInt(this.#nowMs()) * 1_000_000n
    try {
      return await withHandleAsync(this.#tree.engine.open(path, READ_FLAGS), async (fd) => {
        const { size } = regularFile(fd, path.text)
        const before = fstatSync(fd, { bigint: true })
        const hash = createHash('sha256')
        for await (const piece of contentOf(fd, path, { size, pieceBytes: HASH_PIECE_BYTES })) {
          signal?.throwIfAborted()
          hash.update(piece)
        }
        const after = fstatSync(fd, { bigint: true })
        const digest = { sha256: hash.digest('hex'), size }
        const isSettled = after.ctimeNs < startedNs - SETTLED_AFTER_NS && isSame(before, after)
        const { dev, ino, mtimeNs, ctimeNs } = after
        return { digest, ...(isSettled && { trusted: { ...digest, dev, ino, mtimeNs, ctimeNs } }) }
      })
    } catch (error) {
      throw toFileFault(error, path.text)
    }
  }

  /**
   * The contents of files in the last manifest, one after the other, each with the size that the manifest states. The
   * receiver verifies the digests: a file may have changed since.
   */
  pack(
    contents: readonly string[],
    { signal }: PackOptions = {},
  ): { chunks: AsyncIterable<Uint8Array>; summary: ArchiveSummary } {
    const summary = { entries: 0, bytes: 0 }
    const pieces = this.#pieces(contents, { summary, signal })
    return { summary, chunks: coalesce(pieces, PIECE_BYTES) }
  }

  async *#pieces(
    contents: readonly string[],
    { summary, signal }: { summary: { entries: number; bytes: number }; signal: AbortSignal | undefined },
  ): AsyncGenerator<Uint8Array> {
    for (const sha256 of contents) {
      signal?.throwIfAborted()
      const located = this.#located.get(sha256)
      if (!located)
        throw new FileFault('not_found', `the last manifest has no file with the digest ${sha256}`)
      yield* piecesOf(this.#tree, located)
      summary.entries += 1
      summary.bytes += located.size
      if (summary.entries % NAMES_PER_PAUSE === 0) await nextTurn()
    }
  }
}

async function* piecesOf(tree: Tree, { path, size }: Located): AsyncGenerator<Uint8Array> {
  const fd = openForReading(tree, path)
  try {
    regularFile(fd, path.text)
    yield* contentOf(fd, path, { size })
  } finally {
    closeSync(fd)
  }
}

function openForReading(tree: Tree, path: WorkspacePath): number {
  try {
    return tree.engine.open(path, READ_FLAGS)
  } catch (error) {
    throw toFileFault(error, path.text)
  }
}

const isSame = (
  a: Pick<BigIntStats, 'dev' | 'ino' | 'mtimeNs' | 'ctimeNs'>,
  b: Pick<BigIntStats, 'dev' | 'ino' | 'mtimeNs' | 'ctimeNs'>,
): boolean => a.dev === b.dev && a.ino === b.ino && a.mtimeNs === b.mtimeNs && a.ctimeNs === b.ctimeNs
