import type { IncomingMessage } from 'node:http'

/** All values of a header, as they were sent. `headers` of Node keeps only the first `Host`. */
export function headersNamed({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>, name: string): string[] {
  return pairs(rawHeaders).flatMap(([key, value]) => (key.toLowerCase() === name ? [value] : []))
}

export function pairs(rawHeaders: readonly string[]): (readonly [string, string])[] {
  const found: (readonly [string, string])[] = []
  for (let index = 0; index + 1 < rawHeaders.length; index += 2)
    found.push([rawHeaders[index] as string, rawHeaders[index + 1] as string])
  return found
}

/** Headers that concern one connection only (RFC 9110, section 7.6.1), and those for proxies. */
const HOP_BY_HOP = new Set([
  ...['connection', 'keep-alive', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'http2-settings'],
])

/** Headers with which some servers replace the method or the path that was judged. */
const OVERRIDES = new Set([
  ...['x-http-method-override', 'x-http-method', 'x-method-override', 'x-original-url', 'x-rewrite-url'],
])

const KEPT_CONNECTION_OPTIONS = new Set(['keep-alive', 'close'])

const isForProxies = (name: string) => name.startsWith('proxy-')

/** Returns why the headers of a request must not be forwarded, or undefined. */
export function headerFault(rawHeaders: readonly string[]): string | undefined {
  for (const [key, value] of pairs(rawHeaders)) {
    const fault = faultOf(key.toLowerCase(), value)
    if (fault !== undefined) return fault
  }
  return undefined
}

function faultOf(name: string, value: string): string | undefined {
  if (OVERRIDES.has(name)) return `the header ${name} can replace what was judged`
  if (name === 'upgrade') return 'an upgrade of the connection is not allowed'
  if (name === 'transfer-encoding' && value.trim().toLowerCase() !== 'chunked')
    return 'the only transfer coding is chunked'
  if (name === 'connection' && !optionsOf(value).every((option) => KEPT_CONNECTION_OPTIONS.has(option)))
    return `the Connection header names ${value.slice(0, 100)}`
  return undefined
}

const optionsOf = (value: string) =>
  value.split(',').flatMap((option) => (option.trim() === '' ? [] : [option.trim().toLowerCase()]))

/** The headers that pass the proxy, with their spelling and order. */
export const forwardedHeaders = (rawHeaders: readonly string[], except: readonly string[] = []): string[] =>
  pairs(rawHeaders).flatMap(([key, value]) => {
    const name = key.toLowerCase()
    return HOP_BY_HOP.has(name) || isForProxies(name) || except.includes(name) ? [] : [key, value]
  })
