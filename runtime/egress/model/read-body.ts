import type { IncomingMessage } from 'node:http'
import { headersNamed } from '../request-headers.ts'
import { RequestRefused } from './answers.ts'

const refused = (reason: string, remedy: string) => new RequestRefused({ rule: 'model', reason, remedy })

/** A client that has sent so many times the limit reads no answer. */
const PATIENCE = 4

/**
 * Reads the body of a request, up to a limit. Throws `RequestRefused`. A body that is somewhat longer is read to its end,
 * because most clients read the answer only then.
 */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<string> {
  const [encoding = 'identity'] = headersNamed(request, 'content-encoding')
  if (encoding.toLowerCase() !== 'identity') throw refused('its body is compressed', 'Send it as it is.')
  let chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > maxBytes * PATIENCE) throw new Error('the client sends too much')
    if (bytes > maxBytes) chunks = []
    else chunks.push(chunk)
  }
  if (bytes > maxBytes)
    throw refused(
      `its body is longer than ${maxBytes} bytes`,
      'Give the agent a smaller task, or smaller files.',
    )
  return new TextDecoder().decode(Buffer.concat(chunks))
}

/** Reads the rest of a request that is refused. A client that still sends when the connection ends may lose the answer. */
export async function skipBody(request: IncomingMessage, maxBytes: number): Promise<void> {
  // Such a client sends its body only after 100 Continue.
  if (request.complete || request.headers.expect !== undefined) return
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > maxBytes * PATIENCE) throw new Error('the client sends too much')
  }
}
