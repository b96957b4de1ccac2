import { expect, it } from 'vitest'
import { CILIUM_VERDICTS } from './cilium-verdicts.ts'
import { evaluatorOf } from './small-world.ts'

it.each(CILIUM_VERDICTS.map((one) => [one.title, one] as const))(
  'agrees with Cilium. %s',
  (_title, { policies, facts, probe, side, allowed }) => {
    expect(evaluatorOf(policies, facts).evaluate(probe)[side].allowed).toBe(allowed)
  },
)
