import { expect, it } from 'vitest'
import type { KubeObject } from '../../devcluster/client/kube-object.ts'
import { create } from '../admission/examples/attempt.ts'
import { names, stored } from '../admission/mutants.ts'
import { kataParameters } from '../admission/space.ts'
import { type AdmissionTest, useAdmissionSpace } from './helpers/admission-space.ts'
import { describeWith } from './helpers/features.ts'
import { judge, type Verdict } from './helpers/judge-mutants.ts'
import { MUTANT_KINDS, type MutantKind, mutantsOf } from './helpers/mutant-kinds.ts'

const whatOf = (verdicts: readonly Verdict[]) => verdicts.map(({ mutant }) => mutant.what)

/**
 * Results of the mutants of one kind: rejected by our rules, admitted although a field changed, and unlisted mutants.
 */
async function tryMutants(test: AdmissionTest, kind: MutantKind) {
  const strict = await kind.strict(test)
  const asked = await test.ask(kind.send(kind.by, strict))
  expect(asked.status).toBe(200)
  const mutants = await mutantsOf(test.client, kind, strict)
  const verdicts = await judge(test, mutants, ({ object }) => kind.send(kind.by, object))
  // A conflict would hide the verdict of the rules.
  expect(whatOf(verdicts.filter(({ status }) => status === 409))).toEqual([])
  const passed = verdicts.filter(
    ({ status, object }) => status === 200 && stored(object!) !== stored(asked.object!),
  )
  const isListed = ({ mutant }: Verdict) => kind.neutral.some(({ pattern }) => pattern.test(mutant.what))
  return {
    refused: verdicts.filter(({ rule }) => rule !== ''),
    unlisted: whatOf(passed.filter((verdict) => !isListed(verdict))),
    unused: kind.neutral.filter(({ pattern }) => !whatOf(passed).some((what) => pattern.test(what))),
  }
}

describeWith(['agent-sandbox'], 'a mutated object', () => {
  const test = useAdmissionSpace('mutant', {
    parameters: kataParameters,
    beside: { guarded: { parameters: kataParameters, podSecurity: 'restricted' } },
  })

  it.each(Object.keys(MUTANT_KINDS))(
    'is rejected without Pod Security by a rule that names the field, or is listed as harmless: %s',
    async (name) => {
      const kind = MUTANT_KINDS[name]!

      const { refused, unlisted, unused } = await tryMutants(test, kind)

      expect(unlisted).toEqual([])
      expect(unused.map(({ fields }) => fields)).toEqual([])
      expect(whatOf(refused.filter(({ mutant, message }) => !names(message, mutant)))).toEqual([])
      expect(new Set(refused.map(({ rule }) => rule)).size).toBeGreaterThanOrEqual(kind.rules)
      if (kind.send === create) await expectRefused(kind, refused)
    },
  )

  /**
   * Expects the mutants to be rejected and the strict object to be admitted in the namespace `guarded`, where other
   * admission checks apply too.
   */
  async function expectRefused(kind: MutantKind, refused: readonly Verdict[]): Promise<void> {
    const { namespace } = test.beside('guarded')
    const there = (object: KubeObject) =>
      create(kind.by, { ...object, metadata: { ...object.metadata, namespace } })
    const mutants = refused.map(({ mutant }) => mutant)

    const strict = await test.ask(there(await kind.strict(test)))
    const verdicts = await judge(test, mutants, ({ object }) => there(object))

    expect(strict.status).toBe(200)
    expect(whatOf(verdicts.filter(({ status }) => status !== 403))).toEqual([])
  }
})
