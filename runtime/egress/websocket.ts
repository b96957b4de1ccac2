import { createHash } from 'node:crypto'
import { request as httpRequest, type IncomingMessage, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { failure, type Outgoing, requestHeaders, requestOptions, responseHeaders } from './forward.ts'
import { answer } from './refusals.ts'
import { headersNamed, optionsOf, pairs } from './request-headers.ts'

/** RFC 6455, section 1.3. */
const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
const ACCEPT = 'sec-websocket-accept'

export interface Opening extends Outgoing {
  readonly client: Socket
  /** What the client has sent after its request. */
  readonly head: Buffer
  /** Counts bytes before they are sent. False if they must not be sent: the connection is closed then. */
  readonly sends: (bytes: number) => boolean
}

/** Forwards the opening handshake of a websocket, and connects the sides if the server has accepted it. */
export function openWebsocket(opening: Opening): void {
  const { client, request } = opening
  const sent = httpRequest({
    ...requestOptions(opening),
    headers: [...requestHeaders(opening), ...['Connection', 'Upgrade', 'Upgrade', 'websocket']],
  })
  const fail = (reason: string) => {
    sent.destroy()
    answer(client, 502, failure(opening, reason))
  }
  sent.on('error', () => fail('the host ended the connection'))
  sent.on('response', (refused) => {
    refused.resume()
    fail(`the host answered ${refused.statusCode} instead of opening a websocket`)
  })
  sent.on('upgrade', (accepted, upgraded, first) => {
    const fault = acceptFault(request, accepted)
    if (fault === undefined) join(opening, { accepted, upgraded, first })
    else fail(fault)
  })
  client.once('close', () => sent.destroy())
  sent.end()
}

interface Accepted {
  readonly accepted: IncomingMessage
  readonly upgraded: Duplex
  readonly first: Buffer
}

function join({ client, head, sends }: Opening, { accepted, upgraded, first }: Accepted): void {
  upgraded.on('error', () => client.destroy())
  upgraded.once('close', () => client.destroySoon())
  client.once('close', () => upgraded.destroy())
  const headers = pairs([...responseHeaders(accepted), 'Connection', 'Upgrade', 'Upgrade', 'websocket'])
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  client.write(`HTTP/1.1 101 ${STATUS_CODES[101]}\r\n${lines}\r\n`, 'latin1')
  client.write(first)
  if (!sends(head.length)) return
  upgraded.write(head)
  // Before the pipe, which would send the bytes.
  client.on('data', (chunk: Buffer) => sends(chunk.length))
  client.pipe(upgraded)
  upgraded.pipe(client)
}

/** Returns why a 101 does not accept the websocket that the client asked for, or undefined. */
function acceptFault(request: IncomingMessage, accepted: IncomingMessage): string | undefined {
  const [key = ''] = headersNamed(request, 'sec-websocket-key')
  const expected = createHash('sha1').update(`${key}${GUID}`).digest('base64')
  const upgrades = headersNamed(accepted, 'upgrade').map((value) => value.toLowerCase())
  const options = headersNamed(accepted, 'connection').flatMap(optionsOf)
  const isAccepted =
    headersNamed(accepted, ACCEPT).join() === expected &&
    upgrades.join() === 'websocket' &&
    options.includes('upgrade')
  return isAccepted ? undefined : 'the host did not accept the websocket that the client asked for'
}
