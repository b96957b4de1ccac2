import { type HostName, parseHostName } from '../../policies/agent/egress/host-name.ts'

export interface Target {
  readonly host: HostName
  readonly port: number
}

type Refused = { readonly ok: false; readonly reason: string }

export type ParsedTarget = { readonly ok: true; readonly target: Target } | Refused

const AUTHORITY = /^(?:\[([0-9A-Fa-f:.]{2,45})\]|([^[\]:@/?#\\%\s]{1,255})):([1-9]\d{0,4})$/
const MAX_PORT = 65_535

const refused = (reason: string): Refused => ({ ok: false, reason })

/** Parses `host:port`, with brackets around an IPv6 address and with nothing else. */
export function parseAuthority(text: string): ParsedTarget {
  const [, address, name = '', digits] = AUTHORITY.exec(text) ?? []
  if (digits === undefined) return refused('the target must be HOST:PORT')
  const port = Number(digits)
  if (port > MAX_PORT) return refused(`the port must be at most ${MAX_PORT}`)
  const host = parseHostName(address ?? name)
  if (host.kind === 'refused') return refused(host.reason)
  const isBracketed = address !== undefined
  if ((host.kind === 'address' && host.name.includes(':')) !== isBracketed)
    return refused('brackets are for IPv6 addresses')
  return { ok: true, target: { host, port } }
}

const SCHEME = 'http://'
const AUTHORITY_END = /[/?#]/

/** Parses the target of a request to a proxy, `http://host[:port]/path`. Returns the path with its query too. */
export function parseAbsoluteForm(
  url: string,
): { readonly ok: true; readonly target: Target; readonly path: string } | Refused {
  if (url.slice(0, SCHEME.length).toLowerCase() !== SCHEME)
    return refused('the target must be http://HOST/PATH')
  const rest = url.slice(SCHEME.length)
  const end = rest.search(AUTHORITY_END)
  const authority = end < 0 ? rest : rest.slice(0, end)
  const parsed = parseAuthority(withPort(authority))
  if (!parsed.ok) return parsed
  const tail = end < 0 ? '' : rest.slice(end)
  if (tail.includes('#')) return refused('the target must have no fragment')
  return { ...parsed, path: tail.startsWith('/') ? tail : `/${tail}` }
}

/** A `Host` header or an authority without a port means the default port of `http`. */
export const withPort = (authority: string, port = 80): string =>
  /:\d+$/.test(authority) && !/^\[[^\]]*$/.test(authority) ? authority : `${authority}:${port}`
