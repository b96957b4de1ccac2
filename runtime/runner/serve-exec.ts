import type { HeldEntries } from '../../contracts/events.ts'
import { EXEC_LIMITS, type ExecRequest, type ExecResult, type OutputStream } from '../../contracts/exec.ts'
import { type HostToRunner, RUNNER_FRAME } from '../../contracts/runner.ts'
import type { CommandRights } from '../executors/executor.ts'
import { containedPath } from '../executors/rootfs/request-mounts.ts'
import { costOf } from '../kit/credit-window.ts'
import { messageOf } from '../kit/errors.ts'
import { failedExec } from '../kit/failed-exec.ts'
import type { Bound } from './binding.ts'
import type { Connection, Work } from './connection.ts'
import { holdGitDirectories } from './hold-git-directories.ts'
import type { Server } from './serve.ts'
import { StdinCollector } from './stdin-collector.ts'

type ExecHeader = HostToRunner & { type: 'exec' }

/** Requests that one runner serves at a time; the rest is refused, not queued. */
const MAX_OPEN_REQUESTS = 512

/** Folders that are searched for git directories in a moment; behind more of them a result does not wait. */
const QUICK_FOLDERS = 20_000

/** Runs one command; its output is sent as it comes and waits where AgentHost does not take it. */
export function serveExec({ connection, binding }: Server, header: ExecHeader): Promise<void> {
  const input = header.stdin ? new StdinCollector() : undefined
  return connection.serve(
    header.id,
    async (work) => {
      const reason = connection.openCount > MAX_OPEN_REQUESTS ? 'too many requests at once' : undefined
      const bound = binding.bound
      const result =
        bound && !reason
          ? await run({ connection, bound, work }, header.request, input)
          : failedExec('spawn_failed', reason ?? 'no workspace is open')
      await connection.send({ type: 'exit', id: header.id, result })
    },
    input?.receive,
  )
}

interface Execution {
  readonly connection: Connection
  readonly bound: Bound
  readonly work: Work
}

async function run(
  execution: Execution,
  request: ExecRequest,
  input: StdinCollector | undefined,
): Promise<ExecResult> {
  const { bound, work } = execution
  const stdin = await input?.collect(work.signal)
  if (work.signal.aborted) return failedExec('cancelled', 'cancelled before it started')
  if (input && !stdin)
    return failedExec('spawn_failed', `the input exceeds ${EXEC_LIMITS.maxStdinBytes} bytes`)
  const refusal = await refuseDirectory(bound, request.directory)
  if (refusal) return failedExec('spawn_failed', refusal)
  const io = {
    onChunk: (stream: OutputStream, bytes: Uint8Array) => sendChunk(execution, stream, bytes),
    signal: work.signal,
    ...(stdin ? { stdin } : {}),
  }
  const start = (rights: CommandRights) => bound.executor.run(request, io, rights)
  try {
    // In a pod the files of commands stay where they are.
    const result = await (bound.setId?.run(start) ?? start({ permitsSetGroupId: true }))
    return await afterGitWatch(execution, result)
  } catch (error) {
    return failedExec('spawn_failed', messageOf(error))
  }
}

/** In a large folder the search for git directories goes on behind the result. */
async function afterGitWatch({ connection, bound }: Execution, result: ExecResult): Promise<ExecResult> {
  if (!bound.watch || result.reason === 'spawn_failed') return result
  const searching = holdGitDirectories(connection, bound).then(heldSentence, unsearchedSentence)
  const sentence = bound.watch.folderCount > QUICK_FOLDERS ? undefined : await searching
  if (sentence === undefined) return result
  return { ...result, message: result.message ? `${result.message} ${sentence}` : sentence }
}

function heldSentence(held: HeldEntries | undefined): string | undefined {
  if (!held) return undefined
  const sentences = [
    ...(held.count > 0
      ? [`Git directories in the workspace were renamed to *.agentweaver-held: ${held.names.join(', ')}.`]
      : []),
    ...(held.isComplete
      ? []
      : ['The workspace is too large or too deep to be searched for git directories.']),
  ]
  return sentences.join(' ') || undefined
}

const unsearchedSentence = (error: unknown) =>
  `The workspace could not be searched for git directories: ${messageOf(error)}`

/**
 * A path is refused here before anything starts. One with a link on the way is left to the executor, which looks at
 * where it leads once it is there.
 */
async function refuseDirectory({ workspace }: Bound, directory: string): Promise<string | undefined> {
  const path = containedPath(directory)
  if (path === undefined) return `the working directory ${directory} leads out of the workspace`
  const { result } = await workspace.perform({ op: 'stat', path })
  if (!result.ok)
    return result.code === 'symlink' ? undefined : `the working directory is refused: ${result.message}`
  const type = result.entry?.type
  if (type === 'directory' || type === 'symlink') return undefined
  return `the working directory ${directory} is no directory`
}

async function sendChunk(
  { connection, work }: Execution,
  stream: OutputStream,
  bytes: Uint8Array,
): Promise<void> {
  for (let start = 0; start < bytes.length; start += RUNNER_FRAME.maxChunkBytes) {
    const piece = bytes.subarray(start, start + RUNNER_FRAME.maxChunkBytes)
    if (!(await work.outgoing.take(costOf(piece)))) return
    await connection.send({ type: 'chunk', id: work.id, stream }, piece)
  }
}
