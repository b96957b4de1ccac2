import { AgentCard, Role, StreamResponse, TaskState } from '@a2a-js/sdk'
import { RestTransportFactory } from '@a2a-js/sdk/client'
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { PROBLEM_MEDIA_TYPE } from '../../contracts/errors.ts'
import { A2A, AGENT_HOST_ROUTES, RESUMES_METADATA } from '../../contracts/routes.ts'
import { messageOf, SandboxError } from '../kit/errors.ts'
import { type AgentHostConnection, bodyOf, faultOf, MAX_ANSWER_BYTES, malformed } from './connection.ts'

type StartOptions = {
  /**
   * Continues the turn in which the restored session was exported, instead of sending the prompt.
   * @default false
   */
  readonly resumes?: boolean
}

/** How the API drives turns: an A2A client whose requests travel over the sandbox's one connection. */
export function createTurnClient(connection: AgentHostConnection) {
  const url = `${connection.baseUrl}${AGENT_HOST_ROUTES.a2aBase}/${A2A.versionPath}`
  const fetchImpl: typeof globalThis.fetch = async (input, init = {}) => {
    const headers = new Headers(init.headers)
    headers.set(A2A.versionHeader, A2A.protocolVersion)
    const response = await connection.repeatable(String(input).slice(connection.baseUrl.length), {
      method: init.method ?? 'GET',
      body: typeof init.body === 'string' ? init.body : null,
      signal: init.signal ?? null,
      headers: Object.fromEntries(headers),
    })
    // The A2A transport reads A2A errors. A problem document is an error of AgentHost, with its code.
    if (response.headers.get('content-type')?.startsWith(PROBLEM_MEDIA_TYPE)) throw await faultOf(response)
    const body = bodyOf(response, MAX_ANSWER_BYTES)
    const isStream = response.headers.get('content-type')?.startsWith('text/event-stream')
    return new Response(ReadableStream.from(isStream ? sensible(body) : body), {
      status: response.status,
      headers: [...response.headers],
    })
  }
  const transport = new RestTransportFactory({ fetchImpl }).create(
    url,
    AgentCard.fromJSON({ name: 'agent-host' }),
  )

  return {
    /**
     * Sends a turn and returns when the sandbox has accepted it. The events arrive through `/events`, so the response
     * stream is abandoned, which does not end the turn.
     */
    async start(
      turn: { readonly id: string; readonly prompt: string },
      signal: AbortSignal,
      { resumes = false }: StartOptions = {},
    ): Promise<void> {
      const left = new AbortController()
      const stream = (await transport).sendMessageStream(
        {
          tenant: '',
          message: {
            messageId: turn.id,
            contextId: '',
            taskId: '',
            role: Role.ROLE_USER,
            parts: [
              {
                content: { $case: 'text', value: turn.prompt },
                metadata: undefined,
                filename: '',
                mediaType: 'text/plain',
              },
            ],
            metadata: undefined,
            extensions: [],
            referenceTaskIds: [],
          },
          configuration: undefined,
          metadata: resumes ? { [RESUMES_METADATA]: true } : undefined,
        },
        { signal: AbortSignal.any([signal, left.signal]) },
      )
      const first = await stream.next().catch((error: unknown) => {
        throw notAccepted(error)
      })
      left.abort()
      stream.return(undefined).catch(() => undefined)
      if (first.done || first.value.payload?.$case !== 'task') {
        throw notAccepted(new Error('its response has an unknown format'))
      }
    },

    /** Cancels a turn; a turn that has already ended stays unchanged. */
    async cancel(turnId: string, signal: AbortSignal): Promise<void> {
      const task = await (await transport).cancelTask(
        { tenant: '', id: turnId, metadata: undefined },
        { signal },
      )
      if (task.status?.state === TaskState.TASK_STATE_WORKING) {
        throw new SandboxError('agent_failed', 'the sandbox did not cancel the turn')
      }
    },
  }
}

/**
 * Yields only events that the SDK can parse. The SDK writes an event that it cannot parse to the standard error of this
 * process unchanged, where a sandbox could forge log lines.
 */
async function* sensible(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const events: EventSourceMessage[] = []
  const parser = createParser({ onEvent: (event) => events.push(event) })
  const decoder = new TextDecoder()
  for await (const piece of pieces) {
    parser.feed(decoder.decode(piece, { stream: true }))
    for (const { event = 'message', data } of events.splice(0)) {
      const line = JSON.stringify(event === 'error' ? parsed(data) : readable(data))
      yield Buffer.from(`event: ${event}\ndata: ${line}\n\n`)
    }
  }
}

function parsed(data: string): unknown {
  try {
    return JSON.parse(data)
  } catch (error) {
    throw malformed(MALFORMED_TURN, error)
  }
}

function readable(data: string): unknown {
  const value = parsed(data)
  try {
    StreamResponse.fromJSON(value)
    return value
  } catch (error) {
    throw malformed(MALFORMED_TURN, error)
  }
}

const MALFORMED_TURN = 'the sandbox sent a malformed response to a turn'

const notAccepted = (cause: unknown): SandboxError =>
  cause instanceof SandboxError
    ? cause
    : new SandboxError('agent_failed', `the sandbox did not accept the turn: ${messageOf(cause)}`, { cause })
