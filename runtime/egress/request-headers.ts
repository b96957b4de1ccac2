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

/** Headers with which some servers replace the method. */
const METHOD_OVERRIDES = new Set([
  ...['x-http-method-override', 'x-http-method', 'x-method-override', 'x-original-method'],
  'x-forwarded-method',
])

/** Headers with which some servers replace the host or the path. */
const URL_OVERRIDES = new Set([
  ...['x-original-url', 'x-rewrite-url', 'x-original-uri', 'x-forwarded-uri', 'x-forwarded-path'],
  ...['x-forwarded-prefix', 'x-forwarded-host', 'x-forwarded-server', 'x-original-host', 'x-host'],
  ...['forwarded', 'x-envoy-original-path', 'x-envoy-original-host'],
])

/** Headers that the proxy judges, apart from those above. */
const JUDGED = new Set([...HOP_BY_HOP, 'host', 'content-length', 'expect'])

const KEPT_CONNECTION_OPTIONS = new Set(['keep-alive', 'close', 'upgrade'])

const isForProxies = (name: string) => name.startsWith('proxy-')

/** As CGI and frameworks read it: they replace hyphens by underscores. */
const canonical = (key: string) => key.toLowerCase().replaceAll('_', '-')

export const isMethodOverride = (key: string): boolean => METHOD_OVERRIDES.has(canonical(key))

/** Returns why the headers of a request must not be forwarded, or undefined. */
export function headerFault(rawHeaders: readonly string[]): string | undefined {
  for (const [key, value] of pairs(rawHeaders)) {
    const fault = spellingFault(key, value) ?? faultOf(canonical(key), value)
    if (fault !== undefined) return fault
  }
  return undefined
}

function spellingFault(key: string, value: string): string | undefined {
  const name = canonical(key)
  if (!/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/.test(key)) return 'the name of a header is malformed'
  // Node refuses to send control characters, and servers read them in different ways.
  if (/[\x00-\x08\x0a-\x1f\x7f]/.test(value)) return `the header ${name} has a control character`
  const isHidden = key.includes('_') && (JUDGED.has(name) || isForProxies(name))
  return isHidden ? `the header ${key} is spelled with an underscore` : undefined
}

function faultOf(name: string, value: string): string | undefined {
  if (URL_OVERRIDES.has(name)) return `the header ${name} can replace what was judged`
  if (name === 'transfer-encoding' && value.trim().toLowerCase() !== 'chunked')
    return 'the only transfer coding is chunked'
  if (name === 'connection' && !optionsOf(value).every((option) => KEPT_CONNECTION_OPTIONS.has(option)))
    return `the Connection header names ${value.slice(0, 100)}`
  return undefined
}

/** The options of a `Connection` header, in lower case. */
export const optionsOf = (value: string): string[] =>
  value.split(',').flatMap((option) => (option.trim() === '' ? [] : [option.trim().toLowerCase()]))

/** The headers that pass the proxy, with their spelling and order. */
export const forwardedHeaders = (rawHeaders: readonly string[], except: readonly string[] = []): string[] =>
  pairs(rawHeaders).flatMap(([key, value]) => {
    const name = key.toLowerCase()
    return HOP_BY_HOP.has(name) || isForProxies(name) || except.includes(name) ? [] : [key, value]
  })
