import { expect, it } from 'vitest'
import { describeWith } from './helpers/features.ts'
import { sandboxOf, useSandboxSpace } from './helpers/sandbox-space.ts'

const MEMBERS = 100
const CLAIMS = 40

describeWith(['agent-sandbox', 'kwok'], `a pool of ${MEMBERS} on fake nodes`, () => {
  const space = useSandboxSpace('scale')

  it(`binds ${CLAIMS} concurrent claims, each to a different warm sandbox`, async () => {
    const members = await space.fillPool('large', MEMBERS)

    const claims = await Promise.all(Array.from({ length: CLAIMS }, () => space.bindClaim({ pool: 'large' })))

    const names = claims.map(sandboxOf)
    expect(new Set(names).size).toBe(CLAIMS)
    const warm = new Set(members.map(({ metadata }) => metadata.name))
    expect(names.filter((name) => !warm.has(name))).toEqual([])
  })
})
