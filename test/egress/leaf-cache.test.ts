import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { LeafCache } from '../../runtime/egress/leaf-cache.ts'
import { IntermediateAuthorities } from '../../runtime/egress-ca/intermediate.ts'
import { deriveRoot } from '../../runtime/egress-ca/root.ts'

const HOUR_MS = 3_600_000
const hosts = ['a.example.com', 'b.example.com', '*.c.example.com']

function setUp(max?: number) {
  let now = Date.now()
  const authority = new IntermediateAuthorities(deriveRoot(randomBytes(32))).for(hosts)
  const cache = new LeafCache({ now: () => now, ...(max !== undefined && { max }) })
  cache.setAuthorities([authority])
  const contextFor = (host: string) => cache.contextFor(authority.digest, host)
  const pass = (hours: number) => {
    now += hours * HOUR_MS
  }
  return { cache, contextFor, authority, pass }
}

describe('the certificates of the proxy', () => {
  it('are issued once for each entry', () => {
    const { contextFor } = setUp()

    expect(contextFor('a.example.com')).toBe(contextFor('a.example.com'))
    expect(contextFor('a.example.com')).not.toBe(contextFor('b.example.com'))
    expect(contextFor('*.c.example.com')).toBeDefined()
  })

  it('are bounded in number: the one that was not used for the longest time is dropped', () => {
    const { cache, contextFor } = setUp(2)
    const [first, second] = [contextFor('a.example.com'), contextFor('b.example.com')]

    contextFor('a.example.com')
    contextFor('*.c.example.com')

    expect(cache.size).toBe(2)
    expect(contextFor('a.example.com')).toBe(first)
    expect(contextFor('b.example.com')).not.toBe(second)
  })

  it('are issued again before they end', () => {
    const { contextFor, pass } = setUp()
    const first = contextFor('a.example.com')

    pass(12)
    expect(contextFor('a.example.com')).toBe(first)
    pass(13)
    expect(contextFor('a.example.com')).not.toBe(first)
  })

  it('are not issued for an authority that the newest state does not list, or that is malformed', () => {
    const { cache, contextFor, authority } = setUp()
    contextFor('a.example.com')

    cache.setAuthorities([])
    expect(contextFor('a.example.com')).toBeUndefined()
    cache.setAuthorities([{ ...authority, key: 'none' }])
    expect(contextFor('a.example.com')).toBeUndefined()
    cache.setAuthorities([authority])
    expect(contextFor('a.example.com')).toBeDefined()
  })
})
