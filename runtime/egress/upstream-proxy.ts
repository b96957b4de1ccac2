import { request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { errnoOf } from '../kit/errors.ts'
import { type Target, withPort } from './authority.ts'
import type { EgressLimits } from './limits.ts'

/** The proxy of a company, through which alone its network reaches the internet. */
export interface UpstreamProxy {
  readonly host: string
  readonly port: number
}

type Passed = { readonly ok: true; readonly socket: Socket } | { readonly ok: false; readonly reason: string }

/** Reads `http://HOST:PORT`. */
export function parseUpstreamProxy(url: string): UpstreamProxy {
  const { hostname, port } = new URL(url)
  return { host: hostname.replaceAll(/[[\]]/g, ''), port: Number(port || 80) }
}

/** Opens a tunnel to a target through the company's proxy, which resolves the name. There is no other way. */
export function passThrough(
  { host, port }: UpstreamProxy,
  target: Target,
  { dialMs, bufferBytes, headerBytes }: EgressLimits,
): Promise<Passed> {
  const { promise, resolve } = Promise.withResolvers<Passed>()
  const authority = withPort(target.host.name, target.port)
  const options = { host, port, allowHalfOpen: true, noDelay: true, highWaterMark: bufferBytes }
  const asked = request({
    ...{ method: 'CONNECT', path: authority, headers: { host: authority } },
    ...{ maxHeaderSize: headerBytes, createConnection: () => connect(options) },
  })
  const fail = (reason: string) => {
    asked.destroy()
    resolve({ ok: false, reason })
  }
  const timer = setTimeout(() => fail('the upstream proxy does not answer'), dialMs)
  asked.on('error', (error) => fail(`the upstream proxy failed (${errnoOf(error) ?? error.message})`))
  asked.once('connect', ({ statusCode = 0 }, socket, head) => {
    socket.on('error', () => socket.destroy())
    if (statusCode < 200 || statusCode > 299)
      fail(`the upstream proxy refused it with the status ${statusCode}`)
    // The host has nothing to say before the client.
    else if (head.length > 0) fail('the upstream proxy sent bytes of its own')
    else resolve({ ok: true, socket: socket as Socket })
  })
  asked.end()
  return promise.finally(() => clearTimeout(timer))
}
