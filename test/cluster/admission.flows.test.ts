import { expect, it } from 'vitest'
import { KWOK_LABEL, KWOK_TOLERATION } from '../../devcluster/addons/kwok.ts'
import type { KubeObject } from '../../devcluster/client/kube-object.ts'
import { but, type Draft } from '../admission/examples/attempt.ts'
import { aRunClaim, inHours } from '../admission/examples/claims.ts'
import { aStrictPool, aStrictTemplate } from '../admission/examples/writers.ts'
import { kataParameters } from '../admission/space.ts'
import { useAdmissionSpace } from './helpers/admission-space.ts'
import { describeWith } from './helpers/features.ts'
import { inSeconds, LABEL } from './helpers/sandbox-objects.ts'
import { createSandboxSpace, sandboxOf } from './helpers/sandbox-space.ts'

/** Pods on fake nodes are ready at once. These parameters let the scheduler choose a fake node. */
function onFakeNodes(runtimeClass: string) {
  const parameters = kataParameters(runtimeClass)
  return {
    ...parameters,
    nodeLabel: '',
    tolerations: `${parameters.tolerations},${KWOK_TOLERATION.key}`,
    pools: 'warm,cold,spent',
  }
}

describeWith(['agent-sandbox', 'kwok'], 'the real controller under all rules', () => {
  const test = useAdmissionSpace('flows', { parameters: onFakeNodes })
  let counter = 0
  const unique = (prefix: string) => {
    counter += 1
    return `${prefix}-${counter}`
  }
  const space = createSandboxSpace({ name: test.namespace, client: test.client, unique })

  const template = (name: string) =>
    but(aStrictTemplate(test, name), ({ spec }) => {
      const { spec: pod } = spec.podTemplate
      pod.nodeSelector = KWOK_LABEL
      pod.tolerations.push(KWOK_TOLERATION)
      pod.volumes.push({ name: 'workspace', emptyDir: { sizeLimit: '16Mi' } })
      delete spec.volumeClaimTemplates
    })

  async function fillPool(name: string, replicas: number): Promise<KubeObject[]> {
    await test.as('gitops').create(template(name))
    await test.as('gitops').create(aStrictPool(test, name, { replicas }))
    return space.waitForPool(name, replicas)
  }

  async function claim(pool: string, lifecycle: Draft = {}): Promise<string> {
    const name = unique('agent')
    const object = but(aRunClaim(test, name), ({ spec }) => {
      spec.warmPoolRef.name = pool
      Object.assign(spec.lifecycle, lifecycle)
    })
    await test.as('api').create(object)
    return name
  }

  async function podOf(claimed: KubeObject): Promise<KubeObject> {
    return space.pod(sandboxOf(claimed))
  }

  it('fills a pool from a strict template', async () => {
    const members = await fillPool('warm', 2)

    const pod = await space.pod(members[0]!.metadata.name)
    expect(pod['spec'].runtimeClassName).toBe(test.parameters.runtimeClass)
    expect(pod.metadata.labels?.['agentweaver.io/class']).toBe('agent')
  })

  it('binds a warm claim, writes into its spec and marks its pod', async () => {
    const bound = await space.waitForBound(await claim('warm'))

    expect(bound.metadata.generation).toBe(2)
    expect(bound['spec'].additionalPodMetadata).toEqual({})
    const label = await space.eventually('the mark of the claim', async () => {
      return (await podOf(bound)).metadata.labels?.[LABEL.claimUid]
    })
    expect(label).toBe(bound.metadata.uid)
  })

  it('replaces a claimed member of the pool', async () => {
    await space.waitForPool('warm', 2)
  })

  it('serves a claim with a cold start', async () => {
    await fillPool('cold', 0)

    const bound = await space.waitForBound(await claim('cold'))

    expect(sandboxOf(bound)).toBe(bound.metadata.name)
  })

  it('lets the API extend a bound claim', async () => {
    const bound = await space.waitForBound(await claim('warm'))
    const shutdownTime = inHours(5)

    await test
      .as('api')
      .mergePatch(space.path('sandboxclaims', bound.metadata.name), { spec: { lifecycle: { shutdownTime } } })

    const after = await space.claim(bound.metadata.name)
    expect(after['spec'].lifecycle.shutdownTime).toBe(shutdownTime)
    expect(sandboxOf(after)).toBe(sandboxOf(bound))
  })

  it('ends a claim at its shutdown time, with its sandbox and its pod', async () => {
    const bound = await space.waitForBound(await claim('warm', { shutdownTime: inSeconds(4) }))

    await space.waitUntilGone('sandboxclaims', bound.metadata.name)
    await space.waitUntilGone('sandboxes', sandboxOf(bound))
    await space.waitUntilGone('pods', sandboxOf(bound))
  })

  it.each(['Background', 'Foreground'] as const)(
    'deletes the claim and its dependents on request of the API (%s)',
    async (propagationPolicy) => {
      const bound = await space.waitForBound(await claim('warm'))

      await test.as('api').delete(space.path('sandboxclaims', bound.metadata.name), { propagationPolicy })

      await space.waitUntilGone('sandboxclaims', bound.metadata.name)
      await space.waitUntilGone('pods', sandboxOf(bound))
    },
  )

  it('claims a sandbox that was created before the parameters changed', async () => {
    const [member] = await fillPool('spent', 1)
    const parameters = {
      apiVersion: 'v1',
      plural: 'configmaps',
      namespace: test.namespace,
      name: 'agentweaver-admission',
    }
    const setRepository = (agentHostRepository: string) =>
      test.as('gitops').mergePatch(parameters, { data: { agentHostRepository } })
    await setRepository('registry.example/next')
    await space.eventually('new sandboxes of the old image to be refused', async () => {
      const pod = but(await space.pod(member!.metadata.name), (draft) => {
        draft['metadata'] = { name: 'late', namespace: test.namespace, labels: draft['metadata'].labels }
        delete draft['spec'].nodeName
        delete draft['status']
      })
      return test
        .as('controller')
        .create(pod, { dryRun: 'All' })
        .then(
          () => undefined,
          (error: Error) => error.message.includes('[container-image]') || undefined,
        )
    })

    const bound = await space.waitForBound(await claim('spent'))

    expect(sandboxOf(bound)).toBe(member!.metadata.name)
    await space.eventually(
      'the pod to be marked',
      async () => (await podOf(bound)).metadata.labels?.[LABEL.claimUid],
    )
    await setRepository(test.parameters.agentHostRepository)
    await space.waitForPool('spent', 1)
  })

  it('lets a namespace be deleted', async () => {
    await test.as('gitops').delete({ apiVersion: 'v1', plural: 'namespaces', name: test.namespace })

    await space.eventually('the namespace to be gone', async () => {
      return (await test.client.find({ apiVersion: 'v1', plural: 'namespaces', name: test.namespace }))
        ? undefined
        : true
    })
  })
})
