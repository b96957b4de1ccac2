import { connect, type Socket } from 'node:net'
import type { Target } from '../authority.ts'

export interface PassedOn {
  readonly target: Target
  /** What the client sent after its request. */
  readonly head: Buffer
  readonly brokerPath: string
}

/** Repeats the request of a client to the process that inserts credentials, and connects the two. Returns the connection to it. */
export function passToBroker(
  client: Socket,
  { target, head, brokerPath }: PassedOn,
  onGone: () => void,
): Socket {
  const { host, port } = target
  const authority = `${host.name}:${port}`
  const request = Buffer.from(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`)
  return joinBroker(client, { first: Buffer.concat([request, head]), brokerPath }, onGone)
}

/** Connects a client with the process that inserts credentials, which gets these bytes first. */
export function joinBroker(
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
