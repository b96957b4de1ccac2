import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { describeWith } from './helpers/features.ts'
import { type Comparison, createAgreement, type Disagreement, show } from './packets/agreement.ts'
import { ADDRESSES, type Lives, livesStage, liveThroughClaims, MODES } from './packets/claim-lives.ts'
import { CONVOYS, fuzzFacts, fuzzStage, LANES } from './packets/fuzz-world.ts'
import { KNOWN_SETS } from './packets/known-sets.ts'
import { type PolicySet, policySet } from './packets/policy-generators.ts'
import type { Runtime } from './packets/probe-pod.ts'
import { together, useStage } from './packets/stage.ts'
import { leaksOf, roundsBetween } from './packets/watch.ts'

/** A fixed seed, so that a failure is caused by a change. The environment can set another seed. */
const SEED = Number(process.env['PACKETS_SEED'] ?? 20_261_122)
const SETS = Number(process.env['PACKETS_SETS'] ?? 240)
/** The path of fast-check to the smallest set, from the message of a failure. */
const PATH = process.env['PACKETS_PATH']
const SHRINK_MS = 60_000
/** Numbers for sets that exist only during shrinking. */
const SPARE = 200
const SUITE_MS = 600_000
const RUNTIMES: readonly Runtime[] = ['gvisor', 'runc']
const LIVES_MS = 420_000
/** The agent's grace period alone is five seconds. */
const SHORTEST_WINDOW_MS = 2_000

/**
 * A claim waits up to half a minute for its identity. At the same time, policy sets in other namespaces change, so the
 * claim's window is also measured while the Cilium agent has other work.
 */
describeWith(
  ['cilium', 'agent-sandbox', 'cluster DNS', 'audit log', 'gvisor'],
  'policies on one node',
  () => {
    const stage = useStage(together(livesStage, fuzzStage(SETS + SPARE)))
    let living: Promise<Lives>

    beforeAll(() => {
      living = liveThroughClaims(stage())
      // Separate tests report the failure. This handler only prevents an unhandled rejection before that.
      living.catch(() => undefined)
    })
    afterAll(() => living?.catch(() => undefined), LIVES_MS)

    describe('the evaluator and the packets', () => {
      let spent = SETS
      const nextNumber = () => {
        spent += 1
        return SETS + (spent % SPARE)
      }

      it('agree that everything is open without a policy', async () => {
        const { compare } = createAgreement(stage(), fuzzFacts(stage()))

        const { cells, allowed, disagreements } = await compare([
          { number: nextNumber(), policies: [] },
          { number: nextNumber(), policies: [] },
        ])

        expect(disagreements).toEqual([])
        expect(allowed).toBe(cells)
      })

      it('disagree when the evaluator is given pods with swapped labels', async () => {
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
          const facts = fuzzFacts(stage())
          const firsts = Array.from({ length: Math.ceil(SETS / LANES) }, (_, batch) => batch * LANES).values()
          const comparisons: Comparison[] = []

          const convoys = CONVOYS.map((convoy) => createAgreement(stage(), facts, convoy))
          await Promise.all(
            convoys.map(async ({ compare, clear }) => {
              for (const first of firsts) {
                const batch = sets
                  .slice(first, first + LANES)
                  .map((policies, place) => ({ number: first + place, policies }))
                comparisons.push(await compare(batch))
              }
              await clear()
            }),
          )
          const found = comparisons.flatMap(({ disagreements }) => disagreements)
          const again = createAgreement(stage(), facts)
          const report = found[0] ? await shrink(found[0], sets, again.compare) : ''
          await again.clear()

          expect(found.length, report).toBe(0)
          expect(comparisons.reduce((sum, one) => sum + one.sets, 0)).toBe(SETS)
          const cells = comparisons.reduce((sum, one) => sum + one.cells, 0)
          const allowed = comparisons.reduce((sum, one) => sum + one.allowed, 0)
          expect(allowed / cells).toBeGreaterThan(0.2)
          expect(allowed / cells).toBeLessThan(0.8)
        },
        SUITE_MS,
      )

      it.runIf(PATH)('agree on the set of an earlier failure', async () => {
        const { compare } = createAgreement(stage(), fuzzFacts(stage()))
        const property = fc.asyncProperty(policySet, async (policies) => {
          const { disagreements } = await compare([{ number: nextNumber(), policies }])
          expect(disagreements, show(policies)).toEqual([])
        })

        await fc.assert(property, { seed: SEED, path: PATH ?? '', endOnFailure: true })
      })

      /** Returns the smallest set with a disagreement, and how to reproduce it. */
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

    describe('a sandbox during its whole life', () => {
      let lives: Lives
      beforeAll(async () => {
        lives = await living
      }, LIVES_MS)

      describe.each(MODES.flatMap((mode) => RUNTIMES.map((runtime) => ({ mode, runtime }))))(
        'in mode $mode on $runtime',
        ({ mode, runtime }) => {
          it('never has more access than its class', () => {
            const { watches } = lives[mode][runtime]

            expect(watches.flatMap(leaksOf)).toEqual([])
          })

          it('is probed before the claim, until its identity changes, after that, and while it is deleted', () => {
            const { watches, begunAt, boundAt, identityAt, releasedAt, goneAt } = lives[mode][runtime]
            const [leaving, ...entering] = watches

            for (const watch of watches) {
              expect(roundsBetween(watch, begunAt, boundAt).length).toBeGreaterThan(0)
              expect(roundsBetween(watch, boundAt, identityAt).length).toBeGreaterThan(3)
              expect(roundsBetween(watch, identityAt, releasedAt).length).toBeGreaterThan(0)
            }
            expect(roundsBetween(leaving!, begunAt, releasedAt).length).toBeGreaterThan(10)
            for (const watch of entering) {
              expect(roundsBetween(watch, releasedAt, goneAt).length).toBeGreaterThan(0)
            }
            expect(identityAt - boundAt).toBeGreaterThan(SHORTEST_WINDOW_MS)
          })

          it('always has the access of its class', () => {
            const { watches, begunAt, boundAt, identityAt, releasedAt } = lives[mode][runtime]
            const phases = [
              [begunAt, boundAt],
              [boundAt, identityAt],
              [identityAt, releasedAt],
            ] as const

            for (const watch of watches.slice(0, 2)) {
              const index = watch.cells.findIndex(({ isMeant }) => isMeant)
              for (const [from, to] of phases) {
                const seen = roundsBetween(watch, from, to).map(({ outcomes }) => outcomes[index])
                expect(seen).toContain('open')
              }
            }
          })

          it('has no access in its first moments', () => {
            const { early } = lives[mode][runtime]

            expect(early.rounds).toBeGreaterThan(3)
            expect(early.arrived).toEqual([])
          })
        },
      )

      it('would have too much access for a while if its policy selected the label of the claim', () => {
        expect(lives.window.ms).toBeGreaterThan(SHORTEST_WINDOW_MS)
        expect(lives.window.behindPolicyMs).toBeGreaterThan(0)
        expect(lives.window.early.arrived).toEqual([ADDRESSES.internet, ADDRESSES.metadata])
      })
    })
  },
)
