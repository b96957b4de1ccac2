import { expect, it } from 'vitest'
import { ACCESS_ATTACKS } from '../admission/examples/attacks/access.ts'
import { CLAIM_ATTACKS } from '../admission/examples/attacks/claims.ts'
import { MAKER_ATTACKS } from '../admission/examples/attacks/makers.ts'
import { SHAPE_ATTACKS } from '../admission/examples/attacks/shapes.ts'
import { type Attempt, but, create, patch } from '../admission/examples/attempt.ts'
import { aRunClaim } from '../admission/examples/claims.ts'
import { aDebugContainer, anotherContainer, aSandboxPod } from '../admission/examples/sandbox-pod.ts'
import { aStrictPool, aStrictTemplate, OLD } from '../admission/examples/writers.ts'
import { kataParameters } from '../admission/space.ts'
import { useAdmissionSpace } from './helpers/admission-space.ts'
import { describeWith } from './helpers/features.ts'

const ATTACKS = { ...MAKER_ATTACKS, ...CLAIM_ATTACKS, ...SHAPE_ATTACKS, ...ACCESS_ATTACKS }

describeWith(['agent-sandbox'], 'attacks on the admission rules', () => {
  const test = useAdmissionSpace('attack', { parameters: kataParameters })

  it.each(Object.keys(ATTACKS))('rejects: %s', async (name) => {
    const [rule, attempt] = ATTACKS[name]!

    const answer = await test.ask(attempt(test))

    expect(answer.status, answer.message).toBe(403)
    expect([rule].flat()).toContain(answer.rule)
  })

  it.each(['pool', 'template', 'claim', 'pod'] as const)('a valid %s is still accepted', async (kind) => {
    const attempts: Record<typeof kind, Attempt> = {
      pool: create('gitops', aStrictPool(test, 'fine')),
      template: create('gitops', aStrictTemplate(test)),
      claim: create('api', aRunClaim(test)),
      pod: create('controller', aSandboxPod(test)),
    }

    expect(await test.ask(attempts[kind])).toMatchObject({ status: 200 })
  })

  it('accepts a strict init container and a strict ephemeral container', async () => {
    const init = but(aSandboxPod(test), ({ spec }) => {
      spec.initContainers = [anotherContainer(test, 'setup')]
    })

    const path = {
      apiVersion: 'v1',
      plural: 'pods',
      namespace: test.namespace,
      name: OLD.pod,
      subresource: 'ephemeralcontainers',
    }
    const debug = patch('breakGlass', path, { spec: { ephemeralContainers: [aDebugContainer(test)] } })

    expect(await test.ask(create('controller', init))).toMatchObject({ status: 200 })
    expect(await test.ask(debug)).toMatchObject({ status: 200 })
  })

  it('does not restrict pods of the control plane', async () => {
    const plain = but(aSandboxPod(test), (draft) => {
      draft['metadata'] = { name: 'plain', namespace: test.controlPlane }
      delete draft['spec'].runtimeClassName
    })

    expect(await test.ask(create('tenant', plain))).toMatchObject({ status: 200 })
  })

  it('refuses everything that needs parameters if the parameters are missing, and reports this reason', async () => {
    const parameters = {
      apiVersion: 'v1',
      plural: 'configmaps',
      namespace: test.namespace,
      name: 'agentweaver-admission',
    }
    await test.as('gitops').delete(parameters)

    // The API server reads policy parameters from its own cache, which is updated with a delay.
    for (const attempt of [create('controller', aSandboxPod(test)), create('api', aRunClaim(test))]) {
      const message = async () => (await test.ask(attempt)).message
      await expect.poll(message, { timeout: 10_000 }).toContain('no params found for policy binding')
    }
  })
})
