import { connect, type Socket } from 'node:net'
import type { Target } from '../authority.ts'

export interface PassedOn {
  readonly target: Target
  /** What the client sent after its request. */
  readonly head: Buffer
  readonly brokerPath: string
  /** In a cluster, who the client is. On a laptop, the socket identifies it. */
  readonly proof?: CallerProof | undefined
}

/** The proof of the client's identity. The other process verifies the token itself. */
export interface CallerProof {
  readonly token: string
  readonly address: string
}

/** Header with the address of the client, between the two processes of the proxy. */
export const CLIENT_HEADER = 'Agentweaver-Client'

/** Repeats the request of a client to the process that inserts credentials, and connects the two. Returns the connection to it. */
export function passToBroker(
  client: Socket,
  { target, head, brokerPath, proof }: PassedOn,
  onGone: () => void,
): Socket {
  const { host, port } = target
  const authority = `${host.name}:${port}`
  const request = Buffer.from(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${linesOf(proof)}\r\n`)
  return joinBroker(client, { first: Buffer.concat([request, head]), brokerPath }, onGone)
}

/**
 * Passes a connection on from its first request, which is in the buffer of the socket. In a cluster, the address of the client
 * is added in front of all other headers.
 */
export function passRequestToBroker(
  client: Socket,
  { brokerPath, address }: { readonly brokerPath: string; readonly address?: string | undefined },
  onGone: () => void,
): Socket {
  const first = (client.read() ?? Buffer.alloc(0)) as Buffer
  const end = first.indexOf('\r\n') + 2
  const line = Buffer.from(address === undefined ? '' : `${CLIENT_HEADER}: ${address}\r\n`)
  const named = Buffer.concat([first.subarray(0, end), line, first.subarray(end)])
  return joinBroker(client, { first: named, brokerPath }, onGone)
}

/** Connects a client with the process that inserts credentials, which gets these bytes first. */
function joinBroker(
  client: Socket,
  { first, brokerPath }: { readonly first: Buffer; readonly brokerPath: string },
  onGone: () => void,
): Socket {
  const broker = connect({ path: brokerPath })
  let isConnected = false
  broker.on('error', () => {
    if (isConnected) client.destroy()
    else onGone()
  })
  broker.once('connect', () => {
    isConnected = true
    broker.write(first)
    client.pipe(broker)
    broker.pipe(client)
  })
  client.once('close', () => broker.destroy())
  broker.once('close', () => isConnected && client.destroySoon())
  return broker
}

const linesOf = (proof: CallerProof | undefined): string =>
  proof ? `Proxy-Authorization: Bearer ${proof.token}\r\n${CLIENT_HEADER}: ${proof.address}\r\n` : ''
