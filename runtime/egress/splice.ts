import type { Socket } from 'node:net'
import type { EgressRule } from '../../contracts/egress.ts'
import { type HostName, parseHostName } from '../../policies/agent/egress/host-name.ts'
import {
  beforeSecondHello,
  changeCipherSpecLength,
  type HelloReading,
  isTlsRecord,
  readClientHello,
  readServerStart,
} from './client-hello.ts'
import { collect } from './collect.ts'
import type { EgressLimits } from './limits.ts'
import { RecordGuard } from './record-guard.ts'
import { closeSoon } from './refusals.ts'

export interface Spliced {
  readonly client: Socket
  readonly upstream: Socket
  readonly host: HostName
  readonly limits: EgressLimits
  /** Counts bytes before they are sent. False if they must not be sent: the connection is closed then. */
  readonly sends: (bytes: number) => boolean
}

export type SpliceFault = { readonly rule: EgressRule; readonly reason: string }

/** A fatal TLS alert `access_denied`, which clients report by name. */
const ACCESS_DENIED = Buffer.from([21, 3, 3, 0, 2, 2, 49])

/**
 * Collects the first bytes of a client after CONNECT, and returns whether they begin a TLS connection. If not, they stay in
 * the socket.
 */
export async function firstBytes(client: Socket, ms: number) {
  const first = await collect(client, {
    before: Buffer.alloc(0),
    read: (bytes) => (bytes.length > 0 ? { isTls: isTlsRecord(bytes[0] as number) } : undefined),
    ms,
    leaves: ({ isTls }) => !isTls,
  })
  return first && { isTls: first.result.isTls, bytes: first.bytes }
}

/**
 * Checks the server name of every ClientHello, and then connects the two sides. Returns a fault if a name does not agree;
 * nothing of that ClientHello is forwarded then. Undefined if the connection has ended.
 */
export async function splice(parts: Spliced, bytes: Buffer): Promise<SpliceFault | undefined> {
  const { client, upstream, limits } = parts
  const hello = await collectHello(parts, bytes)
  if (!hello?.ok) return refuse(client, hello?.fault)
  if (!parts.sends(hello.length)) return undefined
  upstream.write(hello.bytes.subarray(0, hello.length))
  let held = hello.bytes.subarray(hello.length)
  // Only the server's answer shows whether a second ClientHello is due. Until then, nothing else of the client passes.
  const answer = await collect(upstream, {
    before: Buffer.alloc(0),
    read: (start) => readServerStart(start),
    ms: limits.handshakeMs,
  })
  if (!answer) return refuse(client, undefined)
  if (answer.result === 'other') return refuse(client, UNCLEAR)
  client.write(answer.bytes)
  if (answer.result === 'alert') {
    // The server has ended the handshake.
    closeSoon(client)
    client.end()
    return undefined
  }
  if (answer.result === 'retry') {
    const second = await collectHello(parts, held, beforeSecondHello)
    if (!second?.ok) return refuse(client, second?.fault)
    held = second.bytes
  }
  return join(parts, held)
}

export function refuse(client: Socket, fault: SpliceFault | undefined): SpliceFault | undefined {
  if (fault) {
    closeSoon(client)
    client.end(ACCESS_DENIED)
  } else client.destroy()
  return fault
}

type Hello =
  | { readonly ok: true; readonly bytes: Buffer; readonly length: number }
  | { readonly ok: false; readonly fault: SpliceFault | undefined }

/** Collects a ClientHello, after an optional ChangeCipherSpec, and compares its server name. */
export async function collectHello(
  { client, host, limits }: Omit<Spliced, 'upstream' | 'sends'>,
  before: Buffer,
  skip = changeCipherSpecLength,
): Promise<Hello | undefined> {
  const read = (bytes: Buffer): { reading: HelloReading; skipped: number } | undefined => {
    const skipped = skip(bytes)
    const reading = readClientHello(bytes.subarray(skipped), limits.helloBytes)
    return reading.kind === 'more' ? undefined : { reading, skipped }
  }
  const collected = await collect(client, { before, read, ms: limits.handshakeMs })
  if (!collected) return undefined
  const { reading, skipped } = collected.result
  if (reading.kind === 'refused') return { ok: false, fault: { rule: reading.fault, reason: reading.reason } }
  if (reading.kind === 'more') return undefined
  const named = parseHostName(reading.serverName)
  if (named.kind !== 'name' || named.name !== host.name) {
    const reason = `the server name of TLS is ${JSON.stringify(reading.serverName.slice(0, 253))}`
    return { ok: false, fault: { rule: 'name-mismatch', reason } }
  }
  return { ok: true, bytes: collected.bytes, length: skipped + reading.length }
}

const UNCLEAR: SpliceFault = {
  rule: 'client-hello',
  reason: 'the server does not answer the ClientHello with a ServerHello in one record',
}

const RENEGOTIATION: SpliceFault = {
  rule: 'client-hello',
  reason: 'a renegotiation of TLS can name another host',
}

/**
 * Connects the sides. The end of one is passed on; an error ends both. Resolves when a fault has ended the connection, or
 * when it has ended.
 */
function join({ client, upstream, sends }: Spliced, held: Buffer): Promise<SpliceFault | undefined> {
  const { promise, resolve } = Promise.withResolvers<SpliceFault | undefined>()
  const guard = new RecordGuard()
  const passes = (bytes: Buffer) => {
    if (!guard.renegotiates(bytes)) return sends(bytes.length)
    upstream.destroy()
    client.destroy()
    resolve(RENEGOTIATION)
    return false
  }
  client.once('close', () => resolve(undefined))
  if (!passes(held)) return promise
  if (held.length > 0) upstream.write(held)
  // Before the pipe, which would send the bytes.
  client.on('data', passes)
  client.pipe(upstream)
  upstream.pipe(client)
  return promise
}
