import { randomUUID } from 'node:crypto'
import type { HostEnvelope } from '../../../contracts/events.ts'
import type { ExecRequest, ExecResult, Isolation } from '../../../contracts/exec.ts'
import type { ExecIo } from '../../../contracts/toolbox.ts'
import type { AgentHostClient } from '../../../runtime/agent-host-client/client.ts'
import type { Executor } from '../../../runtime/executors/executor.ts'
import { SandboxError } from '../../../runtime/kit/errors.ts'
import { failedExec } from '../../../runtime/kit/failed-exec.ts'

const never = new AbortController().signal

interface Command {
  readonly io: ExecIo
  readonly ended: (result: ExecResult) => void
  /** Resolves when the previous output has been consumed, so that output is delivered in order. */
  taken: Promise<void>
  failed?: (error: unknown) => void
}

/** Commands of a sandbox pod as the control plane runs them: `PUT /commands/{id}`, and the one stream of events. */
export function createPodExecutor(client: AgentHostClient, isolation: Isolation): Executor {
  const commands = new Map<string, Command>()
  const stop = new AbortController()
  const following = follow(client, commands, stop.signal)
  // If reading events fails while no command waits, or because a command ends its own pod, only the next command
  // receives the error.
  following.catch(() => undefined)

  async function run(request: ExecRequest, io: ExecIo): Promise<ExecResult> {
    if (io.signal?.aborted) return failedExec('cancelled', 'cancelled before it was sent')
    const id = randomUUID()
    const { promise, resolve } = Promise.withResolvers<ExecResult>()
    const command: Command = { io, ended: resolve, taken: Promise.resolve() }
    commands.set(id, command)
    const cancel = () => void client.cancelCommand(id, never).catch(() => undefined)
    const reader = new Promise<never>((_resolve, reject) => {
      command.failed = reject
    })
    reader.catch(cancel)
    try {
      await start(id, request, io)
      io.signal?.addEventListener('abort', cancel, { once: true })
      if (io.signal?.aborted) cancel()
      const result = await Promise.race([promise, following, reader])
      await command.taken
      return result
    } finally {
      io.signal?.removeEventListener('abort', cancel)
      commands.delete(id)
    }
  }

  async function start(id: string, request: ExecRequest, { stdin }: ExecIo): Promise<void> {
    const input = stdin && { stdin: Buffer.from(stdin).toString('base64') }
    await client.startCommand(id, { ...request, ...input }, never)
  }

  return {
    isolation,
    hasSyscallFilter: true,
    run,
    async close() {
      stop.abort()
      await following.catch(() => undefined)
    },
  }
}

/** Reads events until the executor is closed, and acknowledges events whose output was consumed. */
async function follow(
  client: AgentHostClient,
  commands: ReadonlyMap<string, Command>,
  signal: AbortSignal,
): Promise<never> {
  let untaken = 0
  for await (const envelope of client.events(0, signal)) {
    const command = commands.get(envelope.commandId ?? '')
    if (command) deliver(command, envelope)
    await command?.taken.catch(() => undefined)
    untaken += 1
    if (untaken < 64 && envelope.event.type !== 'command.exited') continue
    untaken = 0
    await client.decide({ ackedThrough: envelope.sequence, decisions: [] }, signal)
  }
  throw new SandboxError('sandbox_lost', 'the event stream of the pod ended')
}

function deliver(command: Command, { event }: HostEnvelope): void {
  if (event.type === 'command.exited') command.ended(event.data.result)
  if (event.type !== 'command.output') return
  const { stream, chunk } = event.data
  command.taken = command.taken.then(async () => command.io.onChunk(stream, Buffer.from(chunk)))
  command.taken.catch((error: unknown) => command.failed?.(error))
}
