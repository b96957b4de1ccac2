import { expect, it } from 'vitest'
import { ADMISSION_POLICIES } from '../../policies/admission/policies.ts'
import { EXAMPLES } from '../admission/examples/all.ts'
import { kataParameters } from '../admission/space.ts'
import { useAdmissionSpace } from './helpers/admission-space.ts'
import { describeWith } from './helpers/features.ts'

describeWith(['agent-sandbox'], 'every admission rule', () => {
  const space = useAdmissionSpace('adm', { parameters: kataParameters })
  const rules = ADMISSION_POLICIES.flatMap((policy) => policy.rules)

  it.each(rules.map(({ name }) => name))(
    '%s accepts its valid example and rejects its invalid one',
    async (name) => {
      const example = EXAMPLES[name]!(space)

      const passed = await space.ask(example.passes)
      const failed = await space.ask(example.fails)

      expect(passed.message).not.toContain('denied request')
      if (!example.passes.endsLater) expect(passed).toMatchObject({ status: 200 })
      expect(failed).toMatchObject({ status: 403, rule: name })
    },
  )

  it('has no type-checker warning', async () => {
    const { items } = await space.client.list({
      apiVersion: 'admissionregistration.k8s.io/v1',
      plural: 'validatingadmissionpolicies',
    })
    const prefix = space.namespace.replace('-sandboxes', '-')
    const own = items.filter(({ metadata }) => metadata.name.startsWith(prefix))

    expect(own).toHaveLength(ADMISSION_POLICIES.length)
    for (const policy of own) {
      expect(policy['status']?.observedGeneration, policy.metadata.name).toBe(policy.metadata.generation)
      expect(policy['status'].typeChecking, policy.metadata.name).toEqual({})
    }
  })
})
