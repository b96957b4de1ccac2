import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Probe } from '../../reachability/model.ts'
import { denyingPolicy, end, plainPolicy, plainSpec, policies, probe, specOf } from './generated.ts'
import { oracle, type Side } from './oracle.ts'
import { address, aNetworkPolicy, evaluatorOf, pod, SMALL_WORLD } from './small-world.ts'

const RUNS = { numRuns: 1000 }

describe('for any policies', () => {
  it('asks every port at once as it asks one', () => {
    fc.assert(
      fc.property(policies, fc.tuple(end, end), probe, (all, [source, target], { port, protocol }) => {
        const { openPorts, isAllowed } = evaluatorOf(all)

        const isOpen = openPorts(source, target)[protocol].some(
          ([first, last]) => first <= port && port <= last,
        )

        expect(isOpen).toBe(isAllowed({ from: source, to: target, port, protocol }))
      }),
      RUNS,
    )
  })

  it('does not matter in which order they stand', () => {
    fc.assert(
      fc.property(
        policies.chain((all) =>
          fc.tuple(fc.constant(all), fc.shuffledSubarray(all, { minLength: all.length })),
        ),
        probe,
        ([all, shuffled], question) => {
          const verdicts = [all, shuffled].map((list) => evaluatorOf(list).evaluate(question))

          expect(verdicts[1]?.allowed).toBe(verdicts[0]?.allowed)
          expect(verdicts[1]?.egress.because).toBe(verdicts[0]?.egress.because)
        },
      ),
      RUNS,
    )
  })

  it('changes nothing to say a policy twice', () => {
    fc.assert(
      fc.property(policies, probe, (all, question) => {
        const twice = [
          ...all,
          ...all.map((one) => ({ ...one, metadata: { ...one.metadata, name: 'again' } })),
        ]

        expect(evaluatorOf(twice).isAllowed(question)).toBe(evaluatorOf(all).isAllowed(question))
      }),
      RUNS,
    )
  })

  it('opens no connection for a deny policy, and denies the connections that it names', () => {
    fc.assert(
      fc.property(policies, denyingPolicy, probe, (all, deny, question) => {
        const before = evaluatorOf(all).isAllowed(question)
        const after = evaluatorOf([...all, deny]).evaluate(question)

        expect(after.allowed && !before).toBe(false)
        if (evaluatorOf([deny]).isAllowed(question)) expect(after.allowed).toBe(before)
        else expect(after.allowed).toBe(false)
      }),
      RUNS,
    )
  })

  it('closes no connection for one more rule in a NetworkPolicy', () => {
    fc.assert(
      fc.property(policies, fc.tuple(plainPolicy, plainSpec), probe, (all, [policy, more], question) => {
        const spec = specOf(policy)
        const added = (list: 'ingress' | 'egress') =>
          Array.isArray(spec[list]) ? { [list]: [...spec[list], ...(more[list] ?? [])] } : {}
        const larger = { ...policy, spec: { ...spec, ...added('ingress'), ...added('egress') } }

        const before = evaluatorOf([...all, policy]).isAllowed(question)
        const after = evaluatorOf([...all, larger]).isAllowed(question)

        expect(before && !after).toBe(false)
      }),
      RUNS,
    )
  })

  it("never closes another pod's connections to add a NetworkPolicy", () => {
    fc.assert(
      fc.property(policies, plainSpec, probe, (all, spec, question) => {
        const onServer = aNetworkPolicy(
          { ...spec, podSelector: { matchLabels: { app: 'server' } } },
          { name: 'new' },
        )
        const isServers = [question.from, question.to].some(
          (one) => one.kind === 'pod' && one.name === 'server',
        )
        fc.pre(!isServers)

        expect(evaluatorOf([...all, onServer]).isAllowed(question)).toBe(evaluatorOf(all).isAllowed(question))
      }),
      RUNS,
    )
  })

  it('allows only connections with an allow rule under a default deny', () => {
    fc.assert(
      fc.property(policies, probe, (all, question) => {
        const closing = ['a', 'b'].map((namespace) =>
          aNetworkPolicy(
            { podSelector: {}, policyTypes: ['Ingress', 'Egress'] },
            { name: 'closing', namespace },
          ),
        )
        const { egress, ingress } = evaluatorOf([...all, ...closing]).evaluate(question)

        for (const { allowed, because } of [egress, ingress]) {
          if (!allowed) expect(['default deny', 'deny rule']).toContain(because)
          else
            expect(['no policy selects it', 'only default-allow policies select it']).not.toContain(because)
        }
      }),
      RUNS,
    )
  })
})

it('agrees with the documentation of NetworkPolicy', () => {
  const sides: readonly (readonly [Probe['from'], Side])[] = [
    ...SMALL_WORLD.pods
      .filter(({ hostNetwork }) => hostNetwork !== true)
      .map((facts) => [pod(facts.name, facts.namespace), facts] as const),
    ...['203.0.113.9', '203.0.113.200', '10.9.9.9'].map((ip) => [address(ip), ip] as const),
  ]
  const namespaces = Object.fromEntries(SMALL_WORLD.namespaces.map(({ name, labels = {} }) => [name, labels]))
  const side = fc.constantFrom(...sides)
  let open = 0
  let closed = 0

  fc.assert(
    fc.property(
      fc.array(plainPolicy, { maxLength: 5 }),
      fc.tuple(side, side),
      probe,
      (all, [source, target], packet) => {
        const wanted = oracle({ namespaces, policies: all }, { source: source[1], target: target[1], packet })
        const found = evaluatorOf(all).isAllowed({ ...packet, from: source[0], to: target[0] })
        if (wanted) open += 1
        else closed += 1

        expect(found).toBe(wanted)
      },
    ),
    { numRuns: 3000 },
  )
  expect(Math.min(open, closed)).toBeGreaterThan(200)
})
