import { once } from 'node:events'
import type { Socket } from 'node:net'
import { addAbortSignal } from 'node:stream'

export interface Connectable {
  /** Opens a raw connection, for requests that no client would send. */
  readonly connect: () => Promise<Socket>
}

export interface Answer {
  readonly status: number
  readonly headers: ReadonlyMap<string, string>
  readonly text: string
  /** Undefined if the body is not JSON. */
  readonly json: unknown
}

export interface RawRequest {
  readonly method: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

const DEADLINE_MS = 90_000

/** Reads a connection to its end. */
export async function readToEnd(socket: Socket): Promise<string> {
  const chunks: Buffer[] = []
  socket.on('data', (chunk) => chunks.push(chunk))
  try {
    await once(socket, 'close', { signal: AbortSignal.timeout(DEADLINE_MS) })
  } finally {
    socket.destroy()
  }
  return Buffer.concat(chunks).toString('latin1')
}

/** Sends raw bytes and returns everything received until the server closes the connection. */
export async function sendBytes(host: Connectable, bytes: string): Promise<Answer[]> {
  const socket = await host.connect()
  const ended = readToEnd(socket).catch((error: NodeJS.ErrnoException) => {
    // A server that rejects a request may close the connection while the rest is still being sent.
    if (error.code === 'ECONNRESET' || error.code === 'EPIPE') return ''
    throw error
  })
  socket.write(Buffer.from(bytes, 'latin1'))
  return parseAnswers(await ended)
}

export function headOf({ method, path, headers = {} }: RawRequest): string {
  const lines = Object.entries({ host: 'agent-host', connection: 'close', ...headers })
  return `${method} ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}`
}

/** Sends one request on a new connection and returns its only response. */
export async function send(host: Connectable, request: RawRequest): Promise<Answer> {
  const { body } = request
  const length = body === undefined ? '' : `content-length: ${Buffer.byteLength(body)}\r\n`
  const [answer, second] = await sendBytes(
    host,
    `${headOf(request)}${length}\r\n${body === undefined ? '' : Buffer.from(body).toString('latin1')}`,
  )
  if (!answer || second) throw new Error(`${request.method} ${request.path} was not answered exactly once`)
  return answer
}

/** Returns the status of a response that may never end, and disconnects. */
export async function statusOf(host: Connectable, request: RawRequest): Promise<number> {
  const socket = await host.connect()
  addAbortSignal(AbortSignal.timeout(DEADLINE_MS), socket)
  socket.write(`${headOf(request)}content-length: 0\r\n\r\n`)
  let said = ''
  for await (const chunk of socket) {
    said += chunk
    if (said.includes('\r\n')) break
  }
  socket.destroy()
  return Number(said.split(' ')[1])
}

/** Parses all responses received on one connection. */
export function parseAnswers(said: string): Answer[] {
  const answers: Answer[] = []
  for (let rest = said; rest !== ''; ) {
    const end = rest.indexOf('\r\n\r\n')
    if (end < 0 || !rest.startsWith('HTTP/1.1 ')) throw new Error(`no HTTP: ${rest.slice(0, 80)}`)
    const [line = '', ...fields] = rest.slice(0, end).split('\r\n')
    const headers = new Map(
      fields.map((field) => [
        field.slice(0, field.indexOf(':')).toLowerCase(),
        field.slice(field.indexOf(':') + 1).trim(),
      ]),
    )
    const body = rest.slice(end + 4)
    const length = Number(
      headers.get('content-length') ?? (headers.has('transfer-encoding') ? body.length : 0),
    )
    const text = Buffer.from(body.slice(0, length), 'latin1').toString('utf8')
    const status = Number(line.split(' ')[1])
    if (status !== 100) answers.push({ status, headers, text, json: parseJson(text) })
    rest = body.slice(length)
  }
  return answers
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}
