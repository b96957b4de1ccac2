import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { CLAIM_REASONS } from '../../../runtime/sandboxes/kubernetes/claims/claim-reasons.ts'

const read = (page: string) => readFileSync(`docs/${page}`, 'utf8')

it('the page about claims has every reason with its meaning, and no other', () => {
  const rows = [...read('claims.md').matchAll(/^\| `(\w+)` \| (transient|final) \| `(\w+)` \|$/gm)]

  const told = Object.fromEntries(rows.map(([, reason, when, code]) => [reason, [when, code]]))

  const meant = Object.entries(CLAIM_REASONS).map(([reason, { isFinal, code }]) => [
    reason,
    [isFinal ? 'final' : 'transient', code],
  ])
  expect(told).toEqual(Object.fromEntries(meant))
})
