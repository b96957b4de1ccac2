import type { Duplex } from 'node:stream'
import type { Isolation, WorkspaceUsage } from '../../contracts/exec.ts'
import { type RunnerRole, type RunnerWarning, USAGE_ID } from '../../contracts/runner.ts'
import { bestEffort } from '../kit/best-effort.ts'
import { messageOf } from '../kit/errors.ts'
import { activePathEngine } from '../workspace/open-root.ts'
import { loadSearch } from '../workspace/open-workspace.ts'
import { Binding, type BindingDeps } from './binding.ts'
import { Connection, type HostFrame } from './connection.ts'
import { Freezer } from './freezer.ts'
import type { CommandRelay, ServeContext } from './serve-context.ts'
import { serveExec } from './serve-exec.ts'
import { serveFile } from './serve-file.ts'
import { serveManifest, servePack } from './serve-snapshot.ts'
import { loadArchives, serveTarIn, serveTarOut } from './serve-tar.ts'

export interface RunnerDeps extends BindingDeps {
  readonly stream: Duplex
  readonly role: RunnerRole
  readonly isolation: Isolation
  readonly warnings?: readonly RunnerWarning[]
  /** Only in a pod with an egress proxy. */
  readonly relay?: CommandRelay
}

/** Serves one AgentHost until the connection ends, then kills all commands. */
export async function serveRunner(deps: RunnerDeps): Promise<void> {
  const { stream, log, role, isolation, warnings, relay } = deps
  stream.on('error', (error) => log.debug('the connection broke', { error }))
  const connection = new Connection(stream)
  const freezer = new Freezer()
  const onUsage = (usage: WorkspaceUsage) =>
    void connection.send({ type: 'usage', id: USAGE_ID, usage }).catch(() => undefined)
  const binding = new Binding({ ...deps, onUsage })
  const context: ServeContext = { connection, binding, freezer, log, relay }
  try {
    const pathEngine = await activePathEngine()
    await connection.send({
      type: 'hello',
      role,
      isolation,
      pathEngine,
      ...(warnings && { warnings: [...warnings] }),
    })
    void bestEffort(log, 'load what searches and archives need', () =>
      Promise.all([loadSearch(), loadArchives()]),
    )
    for await (const frame of connection.frames()) accept(frame, context, stream)
  } catch (error) {
    log.error('the connection to AgentHost failed', { reason: messageOf(error) })
  } finally {
    stream.destroy()
    connection.abortAll(new Error('the connection to AgentHost ended'))
    await bestEffort(log, 'close the workspace', () => context.binding.close())
  }
}

/** Starts the request of a frame without waiting for it: a long request must not delay a `kill`. */
function accept(frame: HostFrame, context: ServeContext, stream: Duplex): void {
  const started = start(frame, context)
  if (started === undefined) context.connection.route(frame)
  started?.catch((error: unknown) => {
    context.log.error('a request could not be served', { type: frame.header.type, error })
    stream.destroy()
  })
}

function start({ header, payload }: HostFrame, context: ServeContext): Promise<void> | undefined {
  switch (header.type) {
    case 'open':
      return open(context, header)
    case 'exec':
      return serveExec(context, header)
    case 'freeze':
      return freeze(context, header)
    case 'file':
      return serveFile(context, header, payload)
    case 'tar-in':
      return serveTarIn(context, header.id)
    case 'tar-out':
      return serveTarOut(context, header.id)
    case 'manifest':
      return serveManifest(context, header.id)
    case 'pack':
      return servePack(context, header)
    case 'egress':
      context.relay?.use(header.access)
      return Promise.resolve()
    default:
      return undefined
  }
}

type FreezeHeader = HostFrame['header'] & { type: 'freeze' }

async function freeze({ connection, freezer }: ServeContext, { id, isFrozen }: FreezeHeader) {
  freezer.set(isFrozen)
  await connection.send({ type: 'frozen', id })
}

type OpenHeader = HostFrame['header'] & { type: 'open' }

async function open({ connection, binding }: ServeContext, { id, root, layout }: OpenHeader) {
  const error = await binding.open(root, layout)
  await connection.send({ type: 'opened', id, ...(error ? { error } : {}) })
}
