import type { FileError } from '../../contracts/files.ts'
import { FILE_LIMITS } from '../../contracts/limits.ts'
import { RUNNER_FRAME, type RunnerToHost } from '../../contracts/runner.ts'
import { AsyncQueue } from '../kit/async-queue.ts'
import { costOf } from '../kit/credit-window.ts'
import { FrameError } from '../kit/frames.ts'
import type { ArchiveSummary } from '../workspace/archive/archive-summary.ts'
import { toFileError } from '../workspace/file-fault.ts'
import { isGitName } from '../workspace/git/git-names.ts'
import type { WorkspaceEngine } from '../workspace/open-workspace.ts'
import type { Connection, HostFrame, Work } from './connection.ts'
import type { ServeContext } from './serve-context.ts'
import { NOT_OPEN } from './serve-file.ts'

export const LIMITS = { maxEntries: FILE_LIMITS.maxArchiveEntries, maxBytes: FILE_LIMITS.maxArchiveBytes }
/** The user put the files into this folder, and an archive could contain files that the file tools deny. */
const NO_ARCHIVES: FileError = {
  ok: false,
  code: 'denied',
  message: 'this workspace is a folder of this machine; no archive is unpacked into it',
}
export const NOTHING: ArchiveSummary = { entries: 0, bytes: 0 }

/** Loads the archive code. The first archive loads it otherwise. */
export async function loadArchives() {
  const [{ packWorkspace }, { unpackWorkspace }] = await Promise.all([
    import('../workspace/archive/pack.ts'),
    import('../workspace/archive/unpack.ts'),
  ])
  return { packWorkspace, unpackWorkspace }
}

export function serveTarOut({ connection, binding, log }: ServeContext, id: string): Promise<void> {
  return connection.serve(id, async (work) => {
    const workspace = binding.bound?.workspace
    if (!workspace) return connection.send(tarResult(id, NOTHING, NOT_OPEN))
    const { packWorkspace } = await loadArchives()
    const archive = packWorkspace(workspace, { limits: LIMITS, ...walkOptions(workspace, { work, log }) })
    return sendStream(connection, work, archive)
  })
}

/** The options of everything that reads the whole workspace. */
export const walkOptions = (
  { isGuarded }: WorkspaceEngine,
  { work, log }: { readonly work: Work; readonly log: ServeContext['log'] },
) => ({
  signal: work.signal,
  leavesOut: (name: string) => isGuarded && isGitName(name),
  onOmitted: (path: string, reason: string) => log.warn('left out of the archive', { path, reason }),
})

type Outgoing = { readonly chunks: AsyncIterable<Uint8Array>; readonly summary: ArchiveSummary }

/** Sends a stream, and its outcome at the end. */
export async function sendStream(
  connection: Connection,
  { id, outgoing }: Work,
  { chunks, summary }: Outgoing,
): Promise<void> {
  try {
    for await (const chunk of chunks) {
      if (!(await outgoing.take(costOf(chunk)))) return
      await connection.send({ type: 'data', id }, chunk)
    }
    return await connection.send(tarResult(id, summary))
  } catch (error) {
    return connection.send(tarResult(id, summary, toFileError(error, 'the workspace')))
  }
}

export function serveTarIn({ connection, binding }: ServeContext, id: string): Promise<void> {
  const incoming = new Incoming()
  return connection.serve(
    id,
    async (work) => {
      const workspace = binding.bound?.workspace
      if (!workspace) return connection.send(tarResult(id, NOTHING, NOT_OPEN))
      if (workspace.isGuarded) return connection.send(tarResult(id, NOTHING, NO_ARCHIVES))
      try {
        const { unpackWorkspace } = await loadArchives()
        const source = incoming.consume(connection, work)
        const summary = await unpackWorkspace(workspace, source, { limits: LIMITS, signal: work.signal })
        return await connection.send(tarResult(id, summary))
      } catch (error) {
        return connection.send(tarResult(id, NOTHING, toFileError(error, 'the archive')))
      } finally {
        incoming.end()
      }
    },
    incoming.receive,
  )
}

/** Received data of a tar stream that is not consumed yet: at most one window. */
class Incoming {
  readonly #queue = new AsyncQueue<Uint8Array>()
  #waiting = 0

  readonly receive = ({ header, payload }: HostFrame): void => {
    if (header.type === 'end') this.#queue.end()
    if (header.type !== 'data') return
    this.#waiting += costOf(payload)
    if (this.#waiting > RUNNER_FRAME.windowBytes) {
      throw new FrameError('window_exceeded', 'received more data than the window allows')
    }
    this.#queue.push(payload)
  }

  end(): void {
    this.#queue.end()
  }

  async *consume(connection: Connection, { id, signal }: Work): AsyncGenerator<Uint8Array> {
    const stop = () => this.#queue.end()
    signal.addEventListener('abort', stop, { once: true })
    if (signal.aborted) stop()
    for await (const chunk of this.#queue) {
      yield chunk
      const bytes = costOf(chunk)
      this.#waiting -= bytes
      await connection.send({ type: 'credit', id, bytes })
    }
    signal.throwIfAborted()
  }
}

export function tarResult(id: string, { entries, bytes }: ArchiveSummary, error?: FileError): RunnerToHost {
  return { type: 'tar-result', id, entries, bytes, ...(error ? { error } : {}) }
}
