import { describe, expect, it } from 'vitest'
import { parseAuthority } from '../../runtime/egress/authority.ts'
import { type Addressed, readRequest } from '../../runtime/egress/request-rules.ts'

const HOST = 'a.example.com'

function addressed(path: string, protocol: Addressed['protocol'] = 'https'): Addressed {
  const parsed = parseAuthority(`${HOST}:${protocol === 'https' ? 443 : 80}`)
  if (!parsed.ok) throw new Error(parsed.reason)
  return { target: parsed.target, path, protocol }
}

type Head = Partial<Parameters<typeof readRequest>[0]>
const read = (more: string[] = [], { path = '/x', ...head }: Head & { path?: string } = {}) =>
  readRequest(
    { method: 'GET', httpVersion: '1.1', rawHeaders: ['Host', HOST, ...more], ...head },
    addressed(path),
  )
const ruleOf = (...asked: Parameters<typeof read>) => {
  const result = read(...asked)
  return result.ok ? result.facts.needs.join() : result.refusal.rule
}

describe('a request', () => {
  it.each<[string, ...Parameters<typeof read>]>([
    ['', []],
    ['', ['Content-Length', '0']],
    ['', ['Content-Length', '5'], { method: 'POST' }],
    ['', ['Transfer-Encoding', 'Chunked'], { method: 'POST' }],
    ['', ['Connection', 'Keep-Alive, close']],
    ['', ['X_Request_Id', 'a']],
    ['', [], { httpVersion: '1.0' }],
    ['', [], { path: '/x?a=_method&b=x-http-method' }],
    ['get-body', ['Content-Length', '5']],
    ['get-body', ['Transfer-Encoding', 'chunked'], { method: 'HEAD' }],
    ['encoded-slash', [], { path: '/@a%2fb' }],
    ['method-override', ['X-Method-Override', 'PUT'], { method: 'POST' }],
    ['method-override', ['x_http_method', 'PUT'], { method: 'POST' }],
    ['method-override', [], { method: 'POST', path: '/x?%5fmethod=PUT' }],
    ['method-override', [], { method: 'POST', path: '/x?a;X-HTTP-Method=PUT' }],
  ])('needs the permission "%s": %j %j', (needs, ...asked) => {
    expect(ruleOf(...asked)).toBe(needs)
  })

  it.each<[string, ...Parameters<typeof read>]>([
    ['name-mismatch', [], { rawHeaders: [] }],
    ['name-mismatch', [], { rawHeaders: ['Host', 'b.example.com'] }],
    ['name-mismatch', [], { rawHeaders: ['Host', `${HOST}:80`] }],
    ['name-mismatch', [], { rawHeaders: ['Host', `user@${HOST}`] }],
    ['name-mismatch', ['Host', HOST]],
    ['malformed-request', ['Content-Length', '1', 'Content-Length', '1'], { method: 'POST' }],
    ['malformed-request', ['Content-Length', '1', 'Transfer-Encoding', 'chunked'], { method: 'POST' }],
    ['malformed-request', ['Content-Length', '+1'], { method: 'POST' }],
    ['malformed-request', ['Content-Length', '1, 1'], { method: 'POST' }],
    ['malformed-request', ['Transfer-Encoding', 'gzip, chunked'], { method: 'POST' }],
    ['malformed-request', ['Transfer-Encoding', 'identity'], { method: 'POST' }],
    ['malformed-request', ['Transfer-Encoding', 'chunked'], { method: 'POST', httpVersion: '1.0' }],
    ['malformed-request', ['Content_Length', '5'], { method: 'POST' }],
    ['malformed-request', ['Transfer_Encoding', 'chunked'], { method: 'POST' }],
    ['malformed-request', ['Proxy_Authorization', 'x']],
    ['malformed-request', ['Connection', 'close, X-A']],
    ['malformed-request', ['Expect', 'something']],
    ['malformed-request', ['X-A', 'a\nX-B: b']],
    ['malformed-request', ['X A', 'a']],
    ['malformed-request', ['Forwarded', 'host=b']],
    ['malformed-request', ['X_Forwarded_Host', 'b']],
    ['malformed-request', ['X-Rewrite-URL', '/admin']],
    ['malformed-request', [], { httpVersion: '2.0' }],
    ['malformed-request', [], { path: '/a/../b' }],
    ['request', ['Connection', 'Upgrade', 'Upgrade', 'h2c']],
    ['request', ['Upgrade', 'websocket']],
    ['method', [], { method: 'TRACE' }],
    ['method', [], { method: 'CONNECT' }],
  ])('is refused as %s: %j %j', (rule, ...asked) => {
    expect(read(...asked)).toMatchObject({ ok: false, refusal: { rule } })
  })

  it('may name the default port of its protocol', () => {
    const head = { method: 'GET', httpVersion: '1.1', rawHeaders: ['Host', `${HOST}.:443`] }

    expect(readRequest(head, addressed('/')).ok).toBe(true)
    expect(readRequest(head, addressed('/', 'http')).ok).toBe(false)
  })
})
