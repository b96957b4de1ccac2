import { expect, it } from 'vitest'
import { create } from '../admission/examples/attempt.ts'
import { aRunClaim } from '../admission/examples/claims.ts'
import { aSandboxPod } from '../admission/examples/sandbox-pod.ts'
import { addedFields, changedFields, type Mutant, names, type Schema, stored } from '../admission/mutants.ts'
import { NEUTRAL_CLAIM_MUTANTS, NEUTRAL_POD_MUTANTS, type Neutral } from '../admission/neutral-mutants.ts'
import { type Actor, kataParameters } from '../admission/space.ts'
import type { KubeObject } from '../kube/client/kube-object.ts'
import { type AdmissionTest, useAdmissionSpace } from './helpers/admission-space.ts'
import { describeWith } from './helpers/features.ts'
import { fetchSchemas, judge, type Verdict } from './helpers/judge-mutants.ts'

const FIELDS = [['metadata', 'labels'], ['metadata', 'annotations'], ['spec']]
const present = (object: KubeObject) => FIELDS.filter(([first, second]) => !second || object[first!][second])

interface Kind {
  readonly by: Actor
  readonly object: (test: AdmissionTest) => KubeObject
  readonly group: string
  readonly schema: string
  readonly neutral: readonly Neutral[]
  /** How many different rules answer at least: fewer, and the generator has lost its teeth. */
  readonly rules: number
}
const KINDS: Readonly<Record<string, Kind>> = {
  pod: {
    by: 'controller',
    object: aSandboxPod,
    group: 'api/v1',
    schema: 'io.k8s.api.core.v1.Pod',
    neutral: NEUTRAL_POD_MUTANTS,
    rules: 46,
  },
  claim: {
    by: 'api',
    object: aRunClaim,
    group: 'apis/extensions.agents.x-k8s.io/v1beta1',
    schema: 'io.x-k8s.agents.extensions.v1beta1.SandboxClaim',
    neutral: NEUTRAL_CLAIM_MUTANTS,
    rules: 6,
  },
}

async function mutantsOf(test: AdmissionTest, kind: Kind): Promise<Mutant[]> {
  const schemas = await fetchSchemas(test.client, kind.group)
  const object = kind.object(test)
  const root: Schema | undefined = schemas[kind.schema]
  if (!root) throw new Error(`the server has no schema ${kind.schema}`)
  return [...changedFields(object, present(object)), ...addedFields(object, root, schemas)]
}

const whatOf = (verdicts: readonly Verdict[]) => verdicts.map(({ mutant }) => mutant.what)

describeWith(
  ['agent-sandbox'],
  'a strict object with one field changed, where nothing but our rules answers',
  () => {
    const test = useAdmissionSpace('mutant', { parameters: kataParameters })

    it.each(Object.keys(KINDS))(
      'is refused by a rule that names the field, or is listed as no weakness: %s',
      async (name) => {
        const kind = KINDS[name]!
        const mutants = await mutantsOf(test, kind)
        const strict = await test.ask(create(kind.by, kind.object(test)))
        expect(strict.status).toBe(200)

        const verdicts = await judge(test, kind.by, mutants)

        const refused = verdicts.filter(({ rule }) => rule !== '')
        const passed = verdicts.filter(
          ({ status, object }) => status === 200 && stored(object!) !== stored(strict.object!),
        )
        const isNeutral = (verdict: Verdict) =>
          kind.neutral.some(({ pattern }) => pattern.test(verdict.mutant.what))
        const unused = kind.neutral.filter(
          ({ pattern }) => !whatOf(passed).some((what) => pattern.test(what)),
        )
        expect(whatOf(passed.filter((verdict) => !isNeutral(verdict)))).toEqual([])
        expect(unused.map(({ fields }) => fields)).toEqual([])
        expect(whatOf(refused.filter(({ mutant, message }) => !names(message, mutant)))).toEqual([])
        expect(new Set(refused.map(({ rule }) => rule)).size).toBeGreaterThan(kind.rules - 1)
      },
    )
  },
)

describeWith(
  ['agent-sandbox'],
  'a strict object with one field changed, where Pod Security is enforced too',
  () => {
    const test = useAdmissionSpace('guarded', { parameters: kataParameters, podSecurity: 'restricted' })

    it.each(Object.keys(KINDS))('is refused by something, or is listed as no weakness: %s', async (name) => {
      const kind = KINDS[name]!
      const strict = await test.ask(create(kind.by, kind.object(test)))
      const verdicts = await judge(test, kind.by, await mutantsOf(test, kind))

      const passed = verdicts.filter(
        ({ status, object }) => status === 200 && stored(object!) !== stored(strict.object!),
      )
      const isNeutral = (verdict: Verdict) =>
        kind.neutral.some(({ pattern }) => pattern.test(verdict.mutant.what))
      expect(strict.status).toBe(200)
      expect(verdicts.length).toBeGreaterThan(kind.rules * 4)
      expect(whatOf(passed.filter((verdict) => !isNeutral(verdict)))).toEqual([])
    })
  },
)
