import type { Socket } from 'node:net'
import type { EgressRule } from '../../contracts/egress.ts'
import { type HostName, parseHostName } from '../../policies/agent/egress/host-name.ts'
import {
  changeCipherSpecLength,
  type HelloReading,
  isRetryRequest,
  isTlsRecord,
  readClientHello,
} from './client-hello.ts'
import { collect } from './collect.ts'
import type { EgressLimits } from './limits.ts'
import { closeSoon } from './refusals.ts'

export interface Spliced {
  readonly client: Socket
  readonly upstream: Socket
  readonly host: HostName
  readonly limits: EgressLimits
}

export type SpliceFault = { readonly rule: EgressRule; readonly reason: string }

/** A fatal TLS alert `access_denied`, which clients report by name. */
const ACCESS_DENIED = Buffer.from([21, 3, 3, 0, 2, 2, 49])

/** Collects the first byte of a client after CONNECT, and returns whether it begins a TLS connection. */
export async function firstBytes(client: Socket, head: Buffer, ms: number) {
  const first = await collect(client, {
    before: head,
    read: (bytes) => (bytes.length > 0 ? { isTls: isTlsRecord(bytes[0] as number) } : undefined),
    ms,
  })
  return first && { isTls: first.result.isTls, bytes: first.bytes }
}

/**
 * Checks the server name of every ClientHello, and then connects the two sides. Returns a fault if a name does not agree;
 * nothing of that ClientHello is forwarded then. Undefined if the sides are connected, or one of them has ended.
 */
export async function splice(parts: Spliced, bytes: Buffer): Promise<SpliceFault | undefined> {
  const { client, upstream, limits } = parts
  const hello = await collectHello(parts, bytes)
  if (!hello?.ok) return refuse(client, hello?.fault)
  upstream.write(hello.bytes.subarray(0, hello.length))
  let held = hello.bytes.subarray(hello.length)
  // Only the server's answer shows whether a second ClientHello is due. Until then, nothing else of the client passes.
  const answer = await collect(upstream, {
    before: Buffer.alloc(0),
    read: (start) => {
      const isRetry = isRetryRequest(start)
      return isRetry === undefined ? undefined : { isRetry }
    },
    ms: limits.handshakeMs,
  })
  if (!answer) return refuse(client, undefined)
  client.write(answer.bytes)
  if (answer.result.isRetry) {
    const second = await collectHello(parts, held)
    if (!second?.ok) return refuse(client, second?.fault)
    held = second.bytes
  }
  if (held.length > 0) upstream.write(held)
  join(client, upstream)
  return undefined
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
  { client, host, limits }: Omit<Spliced, 'upstream'>,
  before: Buffer,
): Promise<Hello | undefined> {
  const read = (bytes: Buffer): { reading: HelloReading; skipped: number } | undefined => {
    const skipped = changeCipherSpecLength(bytes)
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

/** Connects the sides. The end of one is passed on; an error ends both. */
function join(client: Socket, upstream: Socket): void {
  client.pipe(upstream)
  upstream.pipe(client)
}
