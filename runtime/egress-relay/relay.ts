import { closeSync, writeSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'

/**
 * The relay in a sandbox: accepts connections on the loopback interface and passes them to the socket of the egress
 * proxy. It decides nothing and has no secret. It runs with bare Node in the sandbox of one command, so it imports
 * nothing but Node's own modules.
 */
const [socketPath = '', port = ''] = process.argv.slice(2)

/**
 * The descriptor on which the relay reports that it listens. It is none of the first three: if one of those is closed, a
 * connection can get its number, and Node then fails when it looks at its standard output.
 */
const READY_FD = 3

/** The header with which the proxy explains a refusal (`EGRESS_REASON_HEADER`). */
const REASON = /\r\nagentweaver-egress: ([\x20-\x7e]{1,2500})\r\n/i
/** `EGRESS_RETRY_AFTER_SECONDS`. */
const RETRY_AFTER_SECONDS = 5
const REFUSED = /^HTTP\/1\.1 [45]/
const MAX_HEADER = 16_384
const MAX_SENTENCES = 16
const NO_PROXY =
  'The egress proxy of this sandbox is not running, so there is no network. Report this to the operator of Agentweaver.'

const said = new Set<string>()

/** Prints why a connection was refused, because few programs show the response of a proxy. */
function say(sentence: string): void {
  if (said.has(sentence) || said.size >= MAX_SENTENCES) return
  said.add(sentence)
  try {
    writeSync(2, `agentweaver: ${sentence}\n`)
  } catch {
    // The command closed its standard error.
  }
}

/** Looks at the first bytes of the proxy's answer, without changing them. */
function watchAnswer(upstream: Socket): void {
  let start = ''
  const look = (chunk: Buffer) => {
    start += chunk.toString('latin1')
    const isComplete = start.includes('\r\n\r\n') || start.length > MAX_HEADER
    if (!isComplete && (start.length < 12 || REFUSED.test(start))) return
    upstream.off('data', look)
    // The body is the server's, and may look like a header of the proxy.
    const [head = ''] = start.split('\r\n\r\n', 1)
    const sentence = REFUSED.test(head) ? REASON.exec(`${head}\r\n`)?.[1] : undefined
    if (sentence !== undefined) say(sentence)
  }
  upstream.on('data', look)
}

function relay(client: Socket): void {
  const upstream = connect({ path: socketPath, allowHalfOpen: true })
  let isConnected = false
  upstream.once('connect', () => {
    isConnected = true
  })
  upstream.on('error', () => {
    if (isConnected) {
      client.destroy()
      return
    }
    say(NO_PROXY)
    const body = `${NO_PROXY}\n`
    client.end(
      `HTTP/1.1 503 Service Unavailable\r\nretry-after: ${RETRY_AFTER_SECONDS}\r\nconnection: close\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    )
  })
  client.on('error', () => upstream.destroy())
  client.once('close', () => upstream.destroy())
  upstream.once('close', () => !client.writableEnded && client.destroySoon())
  watchAnswer(upstream)
  client.pipe(upstream)
  upstream.pipe(client, { end: true })
}

const server = createServer({ allowHalfOpen: true }, relay)
server.on('error', (error) => {
  writeSync(READY_FD, `${error.message}\n`)
  process.exit(1)
})
server.listen(Number(port), '127.0.0.1', () => {
  writeSync(READY_FD, 'listening\n')
  // The command supervisor waits for the end of this output.
  closeSync(READY_FD)
})
