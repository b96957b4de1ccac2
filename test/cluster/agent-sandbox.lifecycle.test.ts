import { expect, it } from 'vitest'
import { conditionOf } from '../../devcluster/client/manifests.ts'
import { CORE_API } from '../../devcluster/client/sandbox-objects.ts'
import { describeWith } from './helpers/features.ts'
import { quickPodSpec } from './helpers/pods.ts'
import { inSeconds } from './helpers/sandbox-objects.ts'
import { sandboxOf, useSandboxSpace } from './helpers/sandbox-space.ts'

describeWith(['agent-sandbox'], 'the end of a claim', () => {
  const space = useSandboxSpace('ends')

  it('deletes claim, Sandbox and pod at the shutdown time with policy Delete', async () => {
    await space.fillPool('timed', 1)
    const lifecycle = { shutdownTime: inSeconds(6), shutdownPolicy: 'Delete' }
    const claim = await space.bindClaim({ pool: 'timed', spec: { lifecycle } })

    await space.waitUntilGone('sandboxclaims', claim.metadata.name)

    await space.waitUntilGone('sandboxes', sandboxOf(claim))
    await space.waitUntilGone('pods', sandboxOf(claim))
  })

  it('keeps the claim but not the Sandbox with policy Retain', async () => {
    await space.fillPool('retained', 1)
    const lifecycle = { shutdownTime: inSeconds(6), shutdownPolicy: 'Retain' }
    const claim = await space.bindClaim({ pool: 'retained', spec: { lifecycle } })

    await space.waitForReason(claim.metadata.name, 'ClaimExpired')

    await space.waitUntilGone('sandboxes', sandboxOf(claim))
    await space.waitUntilGone('pods', sandboxOf(claim))
    await space.claim(claim.metadata.name)
  })

  it('keeps an expired claim without a policy', async () => {
    await space.fillPool('default-policy', 1)
    const claim = await space.bindClaim({
      pool: 'default-policy',
      spec: { lifecycle: { shutdownTime: inSeconds(6) } },
    })

    await space.waitForReason(claim.metadata.name, 'ClaimExpired')

    expect((await space.claim(claim.metadata.name))['spec'].lifecycle.shutdownPolicy).toBe('Retain')
  })

  it('uses a shutdown time that was extended', async () => {
    await space.fillPool('pushed', 2)
    const lifecycle = { shutdownTime: inSeconds(6), shutdownPolicy: 'Delete' }
    const claim = await space.bindClaim({ pool: 'pushed', spec: { lifecycle } })
    // Expires no earlier than the first claim would have.
    const later = { ...lifecycle, shutdownTime: inSeconds(7) }
    const expiring = await space.bindClaim({ pool: 'pushed', spec: { lifecycle: later } })

    const spec = { lifecycle: { shutdownTime: inSeconds(600) } }
    await space.client.mergePatch(space.path('sandboxclaims', claim.metadata.name), { spec })
    await space.waitUntilGone('sandboxclaims', expiring.metadata.name)

    expect(conditionOf(await space.claim(claim.metadata.name), 'Ready')?.status).toBe('True')
  })

  it('deletes the Sandbox, the pod and the Service of a deleted claim', async () => {
    await space.fillPool('cascade', 1, { spec: { service: true } })
    const claim = await space.bindClaim({ pool: 'cascade' })

    await space.client.delete(space.path('sandboxclaims', claim.metadata.name))

    for (const plural of ['sandboxclaims', 'sandboxes', 'pods', 'services']) {
      await space.waitUntilGone(plural, plural === 'sandboxclaims' ? claim.metadata.name : sandboxOf(claim))
    }
  })

  it('deletes dependents first with policy DeleteForeground', async () => {
    await space.fillPool('foreground', 1)
    const lifecycle = { shutdownTime: inSeconds(6), shutdownPolicy: 'DeleteForeground' }
    const claim = await space.bindClaim({ pool: 'foreground', spec: { lifecycle } })

    await space.waitUntilGone('sandboxclaims', claim.metadata.name)

    expect(await space.client.find(space.path('sandboxes', sandboxOf(claim)))).toBeUndefined()
    expect(await space.client.find(space.path('pods', sandboxOf(claim)))).toBeUndefined()
  })

  it('is rejected when the precondition has another UID', async () => {
    await space.fillPool('precondition', 0)
    const claim = await space.bindClaim({ pool: 'precondition' })
    const preconditions = { uid: '00000000-0000-4000-8000-000000000000' }

    const deletion = space.client.delete(space.path('sandboxclaims', claim.metadata.name), { preconditions })

    await expect(deletion).rejects.toMatchObject({ status: 409 })
  })
})

describeWith(['agent-sandbox', 'kwok'], 'a pod that ends', () => {
  const space = useSandboxSpace('finished')

  /** A fake pod has the phase that is written into its status. */
  async function endPod(name: string, phase: 'Failed' | 'Succeeded'): Promise<void> {
    await space.client.mergePatch(
      { ...space.path('pods', name), subresource: 'status' },
      { status: { phase } },
    )
  }

  it.each([
    ['Failed', 'PodFailed'],
    ['Succeeded', 'PodSucceeded'],
  ] as const)('in phase %s sets the reason %s on the claim and is not restarted', async (phase, reason) => {
    const pool = phase.toLowerCase()
    await space.fillPool(pool, 1)
    const claim = await space.bindClaim({ pool })
    const before = (await space.pod(sandboxOf(claim))).metadata.uid

    await endPod(sandboxOf(claim), phase)

    await space.waitForReason(claim.metadata.name, reason)
    expect(conditionOf(await space.claim(claim.metadata.name), 'Finished')).toMatchObject({
      status: 'True',
      reason,
    })
    // The controller serves a later claim, so it has seen everything that happened to this one.
    await space.bindClaim({ pool })
    expect((await space.pod(sandboxOf(claim))).metadata.uid).toBe(before)
  })

  it('does not start the TTL before it ends', async () => {
    await space.fillPool('ttl-running', 2)
    const lifecycle = { ttlSecondsAfterFinished: 0, shutdownPolicy: 'Delete' }
    const claim = await space.bindClaim({ pool: 'ttl-running', spec: { lifecycle } })
    const ended = await space.bindClaim({ pool: 'ttl-running', spec: { lifecycle } })

    await endPod(sandboxOf(ended), 'Failed')
    await space.waitUntilGone('sandboxclaims', ended.metadata.name)

    expect(conditionOf(await space.claim(claim.metadata.name), 'Ready')?.status).toBe('True')
  })

  it('starts the TTL, which deletes the claim', async () => {
    await space.fillPool('ttl', 1)
    const lifecycle = { shutdownTime: inSeconds(600), ttlSecondsAfterFinished: 2, shutdownPolicy: 'Delete' }
    const claim = await space.bindClaim({ pool: 'ttl', spec: { lifecycle } })

    await endPod(sandboxOf(claim), 'Failed')

    await space.waitUntilGone('sandboxclaims', claim.metadata.name)
  })

  it('does not keep the claim after an earlier shutdown time', async () => {
    await space.fillPool('earlier', 1)
    const lifecycle = { shutdownTime: inSeconds(6), ttlSecondsAfterFinished: 600, shutdownPolicy: 'Delete' }
    const claim = await space.bindClaim({ pool: 'earlier', spec: { lifecycle } })

    await endPod(sandboxOf(claim), 'Succeeded')

    await space.waitUntilGone('sandboxclaims', claim.metadata.name)
  })

  it('is recreated with the same name after it was deleted', async () => {
    await space.fillPool('deleted', 1)
    const claim = await space.bindClaim({ pool: 'deleted' })
    const before = (await space.pod(sandboxOf(claim))).metadata.uid

    await space.client.delete(space.path('pods', sandboxOf(claim)), { gracePeriodSeconds: 0 })

    await space.eventually('another pod of the same name', async () => {
      const pod = await space.client.find(space.path('pods', sandboxOf(claim)))
      return pod && pod.metadata.uid !== before ? true : undefined
    })
    const bound = await space.waitForBound(claim.metadata.name)
    expect(sandboxOf(bound)).toBe(sandboxOf(claim))
  })
})

describeWith(['agent-sandbox'], 'a Sandbox without a claim', () => {
  const space = useSandboxSpace('sandbox')

  async function createSandbox(name: string, spec: Readonly<Record<string, unknown>> = {}): Promise<void> {
    await space.client.create({
      apiVersion: CORE_API,
      kind: 'Sandbox',
      metadata: { name, namespace: space.name },
      spec: { podTemplate: { spec: quickPodSpec() }, ...spec },
    })
    await space.waitForReason(name, 'DependenciesReady', 'sandboxes')
  }

  it('stays without its pod when it expires with policy Retain', async () => {
    await createSandbox('retained', { shutdownTime: inSeconds(6), shutdownPolicy: 'Retain' })

    await space.waitForReason('retained', 'SandboxExpired', 'sandboxes')

    await space.waitUntilGone('pods', 'retained')
    await space.sandbox('retained')
  })

  it('deletes its pod when suspended and creates one with the same name when resumed', async () => {
    await createSandbox('paused')

    await space.client.mergePatch(space.path('sandboxes', 'paused'), { spec: { operatingMode: 'Suspended' } })
    await space.waitForReason('paused', 'SandboxSuspended', 'sandboxes')
    await space.waitUntilGone('pods', 'paused')
    await space.client.mergePatch(space.path('sandboxes', 'paused'), { spec: { operatingMode: 'Running' } })

    await space.waitForReason('paused', 'DependenciesReady', 'sandboxes')
    expect((await space.pod('paused')).metadata.name).toBe('paused')
  })

  it('has a Service only when it requests one', async () => {
    await createSandbox('served', { service: true })
    await createSandbox('unserved')

    const service = await space.client.get(space.path('services', 'served'))
    expect(service['spec'].clusterIP).toBe('None')
    expect(await space.client.find(space.path('services', 'unserved'))).toBeUndefined()
  })

  it('does not change its pod when its pod template is edited', async () => {
    await createSandbox('edited')
    const before = (await space.pod('edited')).metadata.uid
    const containers = [{ name: 'main', image: 'localhost/other:1' }]

    await space.client.mergePatch(space.path('sandboxes', 'edited'), {
      spec: { podTemplate: { spec: { containers } } },
    })
    // The controller serves a later Sandbox, so it has seen the edit.
    await createSandbox('after-the-edit')

    const pod = await space.pod('edited')
    expect(pod.metadata.uid).toBe(before)
    expect(pod['spec'].containers[0].image).not.toBe('localhost/other:1')
  })

  it('rejects a change of its volume claim templates', async () => {
    await createSandbox('immutable')
    const spec = {
      volumeClaimTemplates: [{ metadata: { name: 'a' }, spec: { accessModes: ['ReadWriteOnce'] } }],
    }

    await expect(
      space.client.mergePatch(space.path('sandboxes', 'immutable'), { spec }),
    ).rejects.toMatchObject({ status: 422 })
  })

  it('reports MultiplePods when a second pod has its labels', async () => {
    await createSandbox('doubled')
    const { uid, labels } = {
      uid: (await space.sandbox('doubled')).metadata.uid!,
      labels: (await space.pod('doubled')).metadata.labels!,
    }
    const owner = {
      apiVersion: CORE_API,
      kind: 'Sandbox',
      name: 'doubled',
      uid,
      controller: true,
      blockOwnerDeletion: true,
    }

    await space.client.create({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'impostor', namespace: space.name, labels, ownerReferences: [owner] },
      spec: quickPodSpec(),
    })

    await space.waitForReason('doubled', 'MultiplePods', 'sandboxes')
  })
})
