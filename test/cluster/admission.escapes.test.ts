import { expect, it } from 'vitest'
import { ESCAPE_PRECONDITIONS } from '../admission/escape-preconditions.ts'
import { create } from '../admission/examples/attempt.ts'
import { ESCAPE_ATTEMPTS } from '../admission/examples/escapes.ts'
import { aSandboxPod } from '../admission/examples/sandbox-pod.ts'
import { kataParameters } from '../admission/space.ts'
import { useAdmissionSpace } from './helpers/admission-space.ts'
import { describeWith } from './helpers/features.ts'

describeWith(['agent-sandbox'], 'the preconditions of a known escape', () => {
  const test = useAdmissionSpace('escape', { parameters: kataParameters })

  it.each(ESCAPE_PRECONDITIONS.map(({ id }) => id))(
    'is rejected by one of the rules listed for it: %s',
    async (id) => {
      const { rules } = ESCAPE_PRECONDITIONS.find((precondition) => precondition.id === id)!

      const answer = await test.ask(ESCAPE_ATTEMPTS[id]!(test))

      expect(answer.status).toBe(403)
      expect(rules).toContain(answer.rule)
    },
  )

  it('is missing from the compliant pod, which is admitted (control)', async () => {
    expect(await test.ask(create('controller', aSandboxPod(test)))).toMatchObject({ status: 200 })
  })
})
