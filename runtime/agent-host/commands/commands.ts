import { createHash } from 'node:crypto'
import type { HostEvent } from '../../../contracts/events.ts'
import type { ExecResult, HostCommand, OutputStream } from '../../../contracts/exec.ts'
import type { Toolbox } from '../../../contracts/toolbox.ts'
import { canonicalJson } from '../../kit/canonical-json.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import { failedExec } from '../../kit/failed-exec.ts'
import type { TextFilter } from '../../tools/text-filter.ts'
import type { Outbox } from '../outbox.ts'

type Command = {
  readonly digest: string
  readonly stop: AbortController
  readonly ended: Promise<ExecResult>
}

export type CommandsDeps = {
  readonly toolbox: Toolbox
  readonly outbox: Outbox
  /** Decodes and redacts one stream of output. */
  readonly openFilter: () => TextFilter
  /** Returns why a request must not run, or undefined if it may. */
  readonly refusal: (request: HostCommand) => string | undefined
}

/** Commands that the caller runs next to the agent. The caller chooses the ids; an id starts at most one command. */
export function createCommands({ toolbox, outbox, openFilter, refusal }: CommandsDeps) {
  const commands = new Map<string, Command>()

  async function run(
    commandId: string,
    { stdin, ...request }: HostCommand,
    signal: AbortSignal,
  ): Promise<ExecResult> {
    const emit = (event: HostEvent) => outbox.emit(event, { commandId })
    const filters = { stdout: openFilter(), stderr: openFilter() }
    const send = async (stream: OutputStream, chunk: string) => {
      if (chunk !== '') await emit({ type: 'command.output', data: { commandId, stream, chunk } })
    }
    const result = await toolbox
      .exec(request, {
        onChunk: (stream, bytes) => send(stream, filters[stream].push(bytes)),
        signal,
        ...(stdin !== undefined && { stdin: Buffer.from(stdin, 'base64') }),
      })
      .catch((error) => failedExec('lost', messageOf(error)))
    await send('stdout', filters.stdout.end())
    await send('stderr', filters.stderr.end())
    await emit({ type: 'command.exited', data: { commandId, result } })
    return result
  }

  return {
    /** Starts a command. Does nothing if it was started before; throws `conflict` if its request was different. */
    start(commandId: string, request: HostCommand): void {
      const digest = createHash('sha256').update(canonicalJson(request)).digest('hex')
      const known = commands.get(commandId)
      if (known && known.digest !== digest) {
        throw new SandboxError('conflict', `command ${commandId} was started with another request`)
      }
      if (known) return
      const reason = refusal(request)
      if (reason !== undefined) throw new SandboxError('policy_denied', reason)
      const stop = new AbortController()
      commands.set(commandId, { digest, stop, ended: run(commandId, request, stop.signal) })
    },

    /** Kills a command and returns its result. For an ended command, just returns the result. */
    async cancel(commandId: string): Promise<ExecResult> {
      const command = commands.get(commandId)
      if (!command) throw new SandboxError('not_found', `there is no command ${commandId}`)
      command.stop.abort()
      return command.ended
    },
  }
}

export type Commands = ReturnType<typeof createCommands>
