import type { Identity } from './identity.ts'
import { type Selector, selects } from './selector.ts'

/**
 * Caches whether a selector matches an identity: there are few distinct selectors and identities, and very many probes.
 */
export function createSelectionCache() {
  const known = new Map<string, Map<number, boolean>>()
  const bySelector = new WeakMap<Selector, Map<number, boolean>>()

  function cacheOf(selector: Selector): Map<number, boolean> {
    const found = bySelector.get(selector) ?? known.get(selector.key)
    const cache = found ?? new Map<number, boolean>()
    if (!found) known.set(selector.key, cache)
    bySelector.set(selector, cache)
    return cache
  }

  return {
    selects(selector: Selector, { id, labels }: Identity): boolean {
      const cache = bySelector.get(selector) ?? cacheOf(selector)
      const answer = cache.get(id)
      if (answer !== undefined) return answer
      const computed = selects(selector, labels)
      cache.set(id, computed)
      return computed
    },
  }
}
export type SelectionCache = ReturnType<typeof createSelectionCache>
