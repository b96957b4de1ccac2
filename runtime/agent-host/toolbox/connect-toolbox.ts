import type { Duplex } from 'node:stream'
import { EGRESS_ID, type RunnerToHost } from '../../../contracts/runner.ts'
import { deadline } from '../../kit/deadline.ts'
import { SandboxError } from '../../kit/errors.ts'
import { execCall } from './exec-call.ts'
import { fileCall } from './file-call.ts'
import { HostConnection, unexpected } from './host-connection.ts'
import type { RunnerLink, UserFolder } from './runner-link.ts'
import { streamCall, tarInCall } from './tar-calls.ts'

/** The runner tests its isolation before it sends `hello`. */
const HELLO_TIMEOUT_MS = 20_000
const OPEN_TIMEOUT_MS = 30_000
const FREEZE_TIMEOUT_MS = 10_000

type Hello = RunnerToHost & { type: 'hello' }

/** Waits for the runner's `hello`. `signal` ends the connection, also after this function has returned. */
export async function connectToolbox(
  stream: Duplex,
  { signal }: { signal?: AbortSignal } = {},
): Promise<RunnerLink> {
  const connection = new HostConnection(stream)
  const abort = () => connection.giveUp('cancelled by AgentHost')
  signal?.addEventListener('abort', abort, { once: true })
  if (signal?.aborted) abort()
  void connection.lost.then(() => signal?.removeEventListener('abort', abort))
  const greeted = Promise.withResolvers<Hello>()
  void connection.lost.then((reason) => greeted.reject(new SandboxError('sandbox_lost', reason)))
  void connection.read((hello) => greeted.resolve(hello))
  try {
    return linkOver(connection, await deadline("the runner's hello", HELLO_TIMEOUT_MS, greeted.promise))
  } catch (error) {
    connection.giveUp('the runner sent no hello')
    throw error
  }
}

function linkOver(connection: HostConnection, hello: Hello): RunnerLink {
  const { role, isolation, pathEngine, warnings = [] } = hello
  return {
    role,
    isolation,
    pathEngine,
    warnings,
    closed: connection.lost,
    open: (root, folder) => openRoot(connection, root, folder),
    exec: (request, io) => execCall(connection, request, io),
    file: (operation, io) => fileCall(connection, operation, io),
    tarIn: (source, signal) => tarInCall(connection, source, signal),
    tarOut: (signal) => streamCall(connection, { type: 'tar-out' }, signal),
    manifest: (signal) => streamCall(connection, { type: 'manifest' }, signal),
    freeze: (isFrozen) => freeze(connection, isFrozen),
    pack: (contents, signal) => streamCall(connection, { type: 'pack', contents }, signal),
    giveEgress: (access) => connection.send({ type: 'egress', id: EGRESS_ID, access }),
    onUsage: (listener) => {
      connection.onUsage = listener
    },
    close: async () => connection.giveUp('closed by AgentHost'),
  }
}

async function openRoot(
  connection: HostConnection,
  root: string,
  folder: UserFolder | undefined,
): Promise<void> {
  if (folder?.layout.gitEntries) connection.onHeld = folder.onHeld
  const opened = Promise.withResolvers<void>()
  const id = connection.begin({
    accept: (frame) => {
      if (frame.header.type !== 'opened') throw unexpected(frame)
      const { error } = frame.header
      if (error) opened.reject(new SandboxError('workspace_invalid', error.message))
      else opened.resolve()
    },
    lose: (reason) => opened.reject(new SandboxError('sandbox_lost', `the runner was lost: ${reason}`)),
  })
  try {
    await connection.send({ type: 'open', id, root, ...(folder && { layout: folder.layout }) })
    await deadline('the runner to open the workspace', OPEN_TIMEOUT_MS, opened.promise)
  } finally {
    connection.end(id)
  }
}

async function freeze(connection: HostConnection, isFrozen: boolean): Promise<void> {
  const done = Promise.withResolvers<void>()
  const id = connection.begin({
    accept: (frame) => {
      if (frame.header.type !== 'frozen') throw unexpected(frame)
      done.resolve()
    },
    lose: (reason) => done.reject(new SandboxError('sandbox_lost', `the runner was lost: ${reason}`)),
  })
  // Before the runner acts: no command may be judged too slow in between.
  if (isFrozen) connection.isFrozen = true
  try {
    await connection.send({ type: 'freeze', id, isFrozen })
    await deadline('the runner to stop or continue commands', FREEZE_TIMEOUT_MS, done.promise)
    connection.isFrozen = isFrozen
  } finally {
    connection.end(id)
  }
}
