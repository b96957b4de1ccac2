import { expect, it } from 'vitest'
import { acceptedInputs } from './differential.ts'

/** `npm run test:attack` tries a million inputs, and compares with the parsers of Go too. */
it('accepts no target, name or request that the URL parser of Node and undici reads in another way', () => {
  const counts = { authority: 0, absolute: 0, hello: 0, request: 0 }

  for (const { kind } of acceptedInputs(26, 40_000)) counts[kind] += 1

  for (const count of Object.values(counts)) expect(count).toBeGreaterThan(100)
})
