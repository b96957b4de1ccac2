import fc from 'fast-check'
import { expect, it } from 'vitest'
import { describeWith } from './helpers/features.ts'
import { type Comparison, createAgreement, type Disagreement, show } from './packets/agreement.ts'
import { fuzzFacts, fuzzStage, LANES } from './packets/fuzz-world.ts'
import { KNOWN_SETS } from './packets/known-sets.ts'
import { type PolicySet, policySet } from './packets/policy-generators.ts'
import { useStage } from './packets/stage.ts'

/** The same sets each time, so that a red run is about the change; other seeds by the environment. */
const SEED = Number(process.env['PACKETS_SEED'] ?? 20_261_122)
const SETS = Number(process.env['PACKETS_SETS'] ?? 240)
/** Which steps fast-check took to the smallest set, as the message of a red run names them. */
const PATH = process.env['PACKETS_PATH']
const SHRINK_MS = 60_000
/** Numbers of sets that exist only while a set shrinks. */
const SPARE = 200
const SUITE_MS = 600_000

describeWith(['cilium', 'cluster DNS', 'audit log', 'gvisor'], 'the evaluator and the packets', () => {
  const stage = useStage(fuzzStage(SETS + SPARE))
  let spent = SETS
  const nextNumber = () => {
    spent += 1
    return SETS + (spent % SPARE)
  }

  it('agree that everything is open where there is no policy', async () => {
    const { compare } = createAgreement(stage(), fuzzFacts(stage()))

    const { cells, allowed, disagreements } = await compare([
      { number: nextNumber(), policies: [] },
      { number: nextNumber(), policies: [] },
    ])

    expect(disagreements).toEqual([])
    expect(allowed).toBe(cells)
  })

  it('are told apart when the evaluator is given pods with each other’s labels', async () => {
    const facts = fuzzFacts(stage())
    const swapped = facts.pods.map((pod) =>
      pod.labels['app'] === 'b' ? { ...pod, labels: { app: 'a', tier: 'front' } } : pod,
    )
    const wrong = createAgreement(stage(), { ...facts, pods: swapped })
    const sets = fc.sample(policySet, { seed: SEED, numRuns: LANES })

    const { disagreements } = await wrong.compare(
      sets.map((policies) => ({ number: nextNumber(), policies })),
    )
    await wrong.clear()

    expect(disagreements.length).toBeGreaterThan(0)
  })

  it.each(KNOWN_SETS)('agree that $title', async ({ policies }) => {
    const agreement = createAgreement(stage(), fuzzFacts(stage()))

    const { disagreements } = await agreement.compare([{ number: nextNumber(), policies }])
    await agreement.clear()

    expect(disagreements).toEqual([])
  })

  it(
    `agree on every cell of ${SETS} generated sets of policies`,
    async () => {
      const sets = fc.sample(policySet, { seed: SEED, numRuns: SETS })
      const agreement = createAgreement(stage(), fuzzFacts(stage()))
      const comparisons: Comparison[] = []

      for (let first = 0; first < SETS; first += LANES) {
        const batch = sets
          .slice(first, first + LANES)
          .map((policies, lane) => ({ number: first + lane, policies }))
        comparisons.push(await agreement.compare(batch))
      }
      const found = comparisons.flatMap(({ disagreements }) => disagreements)
      const report = found[0] ? await shrink(found[0], sets, agreement.compare) : ''
      await agreement.clear()

      expect(found.length, report).toBe(0)
      const cells = comparisons.reduce((sum, one) => sum + one.cells, 0)
      const allowed = comparisons.reduce((sum, one) => sum + one.allowed, 0)
      expect(allowed / cells).toBeGreaterThan(0.2)
      expect(allowed / cells).toBeLessThan(0.8)
    },
    SUITE_MS,
  )

  it.runIf(PATH)('agree on the set that a red run named', async () => {
    const { compare } = createAgreement(stage(), fuzzFacts(stage()))
    const property = fc.asyncProperty(policySet, async (policies) => {
      const { disagreements } = await compare([{ number: nextNumber(), policies }])
      expect(disagreements, show(policies)).toEqual([])
    })

    await fc.assert(property, { seed: SEED, path: PATH ?? '', endOnFailure: true })
  })

  /** The smallest set that shows a disagreement, and how to see it again. */
  async function shrink(
    found: Disagreement,
    sets: readonly PolicySet[],
    compare: ReturnType<typeof createAgreement>['compare'],
  ): Promise<string> {
    const last: Disagreement[] = []
    const property = fc.asyncProperty(policySet, async (policies) => {
      const { disagreements } = await compare([{ number: nextNumber(), policies }])
      if (disagreements[0]) last.push(disagreements[0])
      return disagreements.length === 0
    })
    const result = await fc.check(property, {
      seed: SEED,
      path: String(found.number),
      numRuns: 1,
      interruptAfterTimeLimit: SHRINK_MS,
    })
    const path = result.counterexamplePath ?? String(found.number)
    return [
      show(last.at(-1) ?? found),
      show(result.counterexample?.[0] ?? sets[found.number]),
      `again: PACKETS_SEED=${SEED} PACKETS_PATH=${path} npm run test:cluster -- --project packets agreement`,
    ].join('\n')
  }
})
