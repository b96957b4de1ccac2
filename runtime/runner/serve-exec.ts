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
import type { Freezer } from './freezer.ts'
import { holdGitDirectories } from './hold-git-directories.ts'
import type { ServeContext } from './serve-context.ts'
import { StdinCollector } from './stdin-collector.ts'

type ExecHeader = HostToRunner & { type: 'exec' }

/** Maximum number of open requests per runner. Further requests are rejected, not queued. */
const MAX_OPEN_REQUESTS = 512

/** In larger folders, the search for git directories takes longer, so the result does not wait for it. */
const QUICK_FOLDERS = 20_000

/** Runs one command. Output is sent as it is produced, and waits while AgentHost does not accept more. */
export function serveExec(
  { connection, binding, relay, freezer }: ServeContext,
  header: ExecHeader,
): Promise<void> {
  const input = header.stdin ? new StdinCollector() : undefined
  return connection.serve(
    header.id,
    async (work) => {
      const reason = connection.openCount > MAX_OPEN_REQUESTS ? 'too many requests at once' : undefined
      const bound = binding.bound
      const result =
        bound && !reason
          ? await run({ connection, bound, work, relay, freezer }, header.request, input)
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
  readonly relay: ServeContext['relay']
  readonly freezer: Freezer
}

async function run(
  execution: Execution,
  request: ExecRequest,
  input: StdinCollector | undefined,
): Promise<ExecResult> {
  const { bound, work, freezer } = execution
  const stdin = await input?.collect(work.signal)
  await freezer.thawed(work.signal).catch(() => undefined)
  if (work.signal.aborted) return failedExec('cancelled', 'cancelled before it started')
  if (input && !stdin)
    return failedExec('spawn_failed', `the input exceeds ${EXEC_LIMITS.maxStdinBytes} bytes`)
  const refusal = await refuseDirectory(bound, request.directory)
  if (refusal) return failedExec('spawn_failed', refusal)
  const io = {
    onChunk: (stream: OutputStream, bytes: Uint8Array) => sendChunk(execution, stream, bytes),
    signal: work.signal,
    freezing: freezer,
    ...(stdin ? { stdin } : {}),
  }
  const start = (rights: CommandRights) => bound.executor.run(request, io, rights)
  const stopTelling = request.network ? tellRefusals(execution) : undefined
  try {
    // Files in a pod cannot reach the host, so the bits are harmless.
    const result = await (bound.setId?.run(start) ?? start({ permitsSetGroupId: true }))
    return await afterGitWatch(execution, result)
  } catch (error) {
    return failedExec('spawn_failed', messageOf(error))
  } finally {
    stopTelling?.()
  }
}

const MAX_SENTENCES = 16

/**
 * Adds the sentences of refused connections to the standard error of a command, because few programs show the answer of a
 * proxy. A connection cannot be traced to its command, so each running command gets them.
 */
function tellRefusals(execution: Execution): (() => void) | undefined {
  const told = new Set<string>()
  return execution.relay?.onRefusal((sentence) => {
    if (told.has(sentence) || told.size >= MAX_SENTENCES) return
    told.add(sentence)
    void sendChunk(execution, 'stderr', Buffer.from(`agentweaver: ${sentence}\n`))
  })
}

/**
 * Adds the renamed git directories to the result. In a large folder, the search continues after the result was
 * sent.
 */
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
 * Rejects a working directory before anything starts. The executor checks the target of a
 * path that goes through a link.
 */
async function refuseDirectory({ workspace }: Bound, directory: string): Promise<string | undefined> {
  const path = containedPath(directory)
  if (path === undefined) return `the working directory ${directory} leads out of the workspace`
  const { result } = await workspace.perform({ op: 'stat', path })
  if (!result.ok)
    return result.code === 'symlink' ? undefined : `the working directory is refused: ${result.message}`
  const type = result.entry?.type
  if (type === 'directory' || type === 'symlink') return undefined
  return `the working directory ${directory} is not a directory`
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
