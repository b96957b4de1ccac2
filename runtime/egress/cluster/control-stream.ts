import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import type { EgressDestination, EgressState } from '../../../contracts/egress.ts'
import {
  EGRESS_LEASE,
  EgressControlMessage,
  MAX_CONTROL_MESSAGE_BYTES,
} from '../../../contracts/egress-control.ts'
import { EGRESS_CONTROL_ROUTES } from '../../../contracts/routes.ts'
import { delay } from '../../kit/deadline.ts'
import { messageOf } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import { type ControlPlace, controlRequest } from './control-request.ts'

export interface ControlStreamOptions extends ControlPlace {
  /** Takes the state of a message over. The lease is renewed after it has resolved. */
  readonly onMessage: (message: EgressControlMessage, state: EgressState) => Promise<void>
  readonly onReconnect: () => void
  /** Identifies this process of the proxy. */
  readonly proxy: string
  /** How long the stream may be silent. The API repeats its message. @default 25 s */
  readonly silenceMs?: number | undefined
  readonly log: Log
}

const RETRY_MS = { first: 100, longest: 5_000 } as const
const SILENCE_MS = 2.5 * EGRESS_LEASE.renewMs

/** Follows the control stream of one replica of the API at a time, and connects again until it is closed. */
export function followControlStream(options: ControlStreamOptions): { close(): Promise<void> } {
  const stop = new AbortController()
  const following = followForEver(options, stop.signal).catch(() => undefined)
  return {
    async close() {
      stop.abort()
      await following
    },
  }
}

async function followForEver(options: ControlStreamOptions, stop: AbortSignal): Promise<void> {
  let retryMs: number = RETRY_MS.first
  while (!stop.aborted) {
    let messages = 0
    try {
      for await (const message of messagesOf(options, stop)) {
        messages += 1
        await options.onMessage(message.message, message.state)
      }
    } catch (error) {
      if (stop.aborted) return
      options.log.warn('the control stream broke', { error: messageOf(error) })
    }
    options.onReconnect()
    retryMs = messages > 0 ? RETRY_MS.first : Math.min(retryMs * 2, RETRY_MS.longest)
    // Replicas of the proxy that lost the same replica of the API do not connect at the same moment.
    await delay(retryMs * (0.5 + Math.random()), stop)
  }
}

/** One connection. A line that is malformed ends it, so that the proxy does not miss a state. */
async function* messagesOf(options: ControlStreamOptions, stop: AbortSignal) {
  const response = await openStream(options, stop)
  const { silenceMs = SILENCE_MS } = options
  response.setTimeout(silenceMs, () => response.destroy(new Error('the stream is silent')))
  const policies = new Map<string, EgressDestination[]>()
  for await (const line of linesOf(response)) {
    const message = parseMessage(line)
    yield { message, state: stateOf(message, policies) }
  }
}

/** Without the parser's message, which quotes its input: a state contains private keys. */
function parseMessage(line: string): EgressControlMessage {
  try {
    return EgressControlMessage.parse(JSON.parse(line))
  } catch {
    // biome-ignore lint/style/useErrorCause: the cause has the private keys.
    throw new Error('the API sent a message that this egress proxy cannot read; both must be of one release')
  }
}

async function openStream(options: ControlStreamOptions, signal: AbortSignal): Promise<IncomingMessage> {
  const request = await controlRequest(options, {
    path: `${EGRESS_CONTROL_ROUTES.control}?proxy=${options.proxy}`,
    method: 'GET',
    signal,
    timeoutMs: options.silenceMs ?? SILENCE_MS,
  })
  request.once('timeout', () => request.destroy(new Error('the API does not answer')))
  request.end()
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  if (response.statusCode === 200) return response
  response.destroy()
  throw new Error(`the API answered ${response.statusCode}`)
}

async function* linesOf(response: IncomingMessage): AsyncGenerator<string> {
  let pieces: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    let start = 0
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      yield Buffer.concat([...pieces, chunk.subarray(start, end)]).toString('utf8')
      pieces = []
      bytes = 0
      start = end + 1
    }
    pieces.push(chunk.subarray(start))
    bytes += chunk.length - start
    if (bytes > MAX_CONTROL_MESSAGE_BYTES) throw new Error('a message is too long')
  }
  throw new Error('the API ended the stream')
}

/** Puts the destinations into a message. `known` keeps those that its generations name. */
function stateOf(message: EgressControlMessage, known: Map<string, EgressDestination[]>): EgressState {
  const { keys: _keys, checks: _checks, policies, generations, ...rest } = message
  for (const [digest, destinations] of Object.entries(policies)) known.set(digest, destinations)
  const state = {
    ...rest,
    generations: generations.map(({ policy, ...generation }) => {
      const destinations = known.get(policy)
      if (!destinations) throw new Error('a message names destinations that were not sent')
      return { ...generation, destinations }
    }),
  }
  const named = new Set(generations.map(({ policy }) => policy))
  for (const digest of known.keys()) if (!named.has(digest)) known.delete(digest)
  return state
}
