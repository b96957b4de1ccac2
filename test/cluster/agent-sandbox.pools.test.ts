import { expect, it } from 'vitest'
import type { KubeObject } from '../../devcluster/client/kube-object.ts'
import { aPool } from '../../devcluster/client/sandbox-objects.ts'
import { describeWith } from './helpers/features.ts'
import { quickPodSpec } from './helpers/pods.ts'
import { aTemplate } from './helpers/sandbox-objects.ts'
import { ownersOf, sandboxOf, useSandboxSpace } from './helpers/sandbox-space.ts'

const namesOf = (objects: readonly KubeObject[]) => objects.map(({ metadata }) => metadata.name).sort()

describeWith(['agent-sandbox'], 'a warm pool', () => {
  const space = useSandboxSpace('pools')

  /** Changes the pod spec of a template. A new variable makes its members stale. */
  async function editTemplate(name: string): Promise<void> {
    const [container, ...rest] = (quickPodSpec() as { containers: Record<string, unknown>[] }).containers
    const containers = [{ ...container, env: [{ name: 'EDITED', value: 'yes' }] }, ...rest]
    await space.client.mergePatch(space.path('sandboxtemplates', name), {
      spec: { podTemplate: { spec: { containers } } },
    })
  }

  const environmentOf = async (sandbox: string) =>
    (await space.pod(sandbox))['spec'].containers[0].env?.[0]?.name

  /** The controller has seen an edit of the template when it has replaced a member. */
  const untilMemberIsEdited = (pool: string) =>
    space.eventually(`an edited member of ${pool}`, async () => {
      for (const { metadata } of await space.members(pool))
        if ((await environmentOf(metadata.name)) === 'EDITED') return true
      return undefined
    })

  it('keeps stale members until they are claimed with OnReplenish', async () => {
    const before = namesOf(await space.fillPool('lazy', 2))

    await space.client.create(
      aPool(space, 'rolled', { template: 'lazy', replicas: 1, updateStrategy: 'Recreate' }),
    )
    await space.waitForPool('rolled', 1)

    await editTemplate('lazy')
    await untilMemberIsEdited('rolled')

    expect(namesOf(await space.members('lazy'))).toEqual(before)
    const claim = await space.bindClaim({ pool: 'lazy' })
    expect(await environmentOf(sandboxOf(claim))).toBeUndefined()
    const fresh = await space.eventually('a member of the new kind', async () =>
      (await space.members('lazy')).find(({ metadata }) => !before.includes(metadata.name)),
    )
    await space.eventually('the pod of the new member', () =>
      space.client.find(space.path('pods', fresh.metadata.name)),
    )
    expect(await environmentOf(fresh.metadata.name)).toBe('EDITED')
  })

  it('replaces all stale members with Recreate', async () => {
    await space.client.create(aTemplate(space, 'eager'))
    await space.client.create(
      aPool(space, 'eager', { template: 'eager', replicas: 2, updateStrategy: 'Recreate' }),
    )
    const before = namesOf(await space.waitForPool('eager', 2))

    await editTemplate('eager')

    await space.eventually('two new members', async () => {
      const now = namesOf(await space.members('eager'))
      return now.length === 2 && now.every((name) => !before.includes(name)) ? true : undefined
    })
  })

  it('does not change claimed sandboxes when its template changes', async () => {
    await space.client.create(aTemplate(space, 'claimed'))
    await space.client.create(
      aPool(space, 'claimed', { template: 'claimed', replicas: 1, updateStrategy: 'Recreate' }),
    )
    await space.waitForPool('claimed', 1)
    const claim = await space.bindClaim({ pool: 'claimed' })
    const before = (await space.pod(sandboxOf(claim))).metadata.uid

    await editTemplate('claimed')
    await untilMemberIsEdited('claimed')

    const pod = await space.pod(sandboxOf(claim))
    expect(pod.metadata.uid).toBe(before)
    expect(await environmentOf(sandboxOf(claim))).toBeUndefined()
  })

  it('does not replace members when only the metadata of its template changes', async () => {
    await space.client.create(aTemplate(space, 'labels-only'))
    await space.client.create(
      aPool(space, 'labels-only', { template: 'labels-only', replicas: 1, updateStrategy: 'Recreate' }),
    )
    const before = namesOf(await space.waitForPool('labels-only', 1))

    const metadata = { labels: { 'example.com/added': 'yes' } }
    await space.client.mergePatch(space.path('sandboxtemplates', 'labels-only'), {
      spec: { podTemplate: { metadata } },
    })
    // The controller sees the edit a moment later. A member of a new pool has the label once it has.
    let pools = 0
    await space.eventually('a member of a new pool has the label', async () => {
      const pool = `labelled-${pools++}`
      await space.client.create(aPool(space, pool, { template: 'labels-only', replicas: 1 }))
      const [member] = await space.waitForPool(pool, 1)
      const { labels = {} } = (await space.pod(member!.metadata.name)).metadata
      return labels['example.com/added'] === 'yes' ? true : undefined
    })

    expect(namesOf(await space.members('labels-only'))).toEqual(before)
  })

  it('replaces a member that is deleted', async () => {
    const [member] = await space.fillPool('replaced', 1)

    await space.client.delete(space.path('sandboxes', member!.metadata.name))

    const [next] = await space.waitForPool('replaced', 1)
    expect(next?.metadata.name).not.toBe(member!.metadata.name)
  })

  it('deletes unclaimed members with itself, and keeps claimed ones', async () => {
    await space.fillPool('deleted', 2)
    const claim = await space.bindClaim({ pool: 'deleted' })
    await space.waitForPool('deleted', 2)
    const free = namesOf(await space.members('deleted'))

    await space.client.delete(space.path('sandboxwarmpools', 'deleted'))

    for (const name of free) await space.waitUntilGone('sandboxes', name)
    expect(ownersOf(await space.sandbox(sandboxOf(claim)))).toEqual([`SandboxClaim/${claim.metadata.name}`])
    expect(sandboxOf(await space.waitForBound(claim.metadata.name))).toBe(sandboxOf(claim))
  })

  it('grows and shrinks with the scale subresource', async () => {
    await space.fillPool('scaled', 1)
    const scale = { ...space.path('sandboxwarmpools', 'scaled'), subresource: 'scale' }

    await space.client.mergePatch(scale, { spec: { replicas: 3 } })
    await space.waitForPool('scaled', 3)
    await space.client.mergePatch(scale, { spec: { replicas: 0 } })

    await space.waitForPool('scaled', 0)
  })
})

describeWith(['agent-sandbox'], 'the objects and defaults that a template adds', () => {
  const space = useSandboxSpace('templates')
  const policy = (template: string) => ({
    apiVersion: 'networking.k8s.io/v1',
    plural: 'networkpolicies',
    namespace: space.name,
    name: `${template}-network-policy`,
  })

  it('remove the service account token from pods that do not request one', async () => {
    const [member] = await space.fillPool('no-token', 1)

    const pod = await space.pod(member!.metadata.name)

    expect(pod['spec'].automountServiceAccountToken).toBe(false)
  })

  it('create no network policy when unmanaged', async () => {
    await space.fillPool('unmanaged', 1)

    expect(await space.client.find(policy('unmanaged'))).toBeUndefined()
  })

  it('allow the internet and deny cluster DNS when managed, which is the default', async () => {
    const spec = { networkPolicyManagement: 'Managed' }
    const [member] = await space.fillPool('managed', 1, { spec })

    const found = await space.eventually('the network policy', () => space.client.find(policy('managed')))

    const blocks = found['spec'].egress.flatMap((rule: { to: { ipBlock?: { cidr: string } }[] }) =>
      rule.to.map((to) => to.ipBlock?.cidr),
    )
    expect(blocks).toContain('0.0.0.0/0')
    const pod = await space.pod(member!.metadata.name)
    expect(pod['spec'].dnsPolicy).toBe('None')
    expect(pod['spec'].dnsConfig.nameservers).toEqual(['8.8.8.8', '1.1.1.1'])
  })

  it('deny both directions with an empty managed policy', async () => {
    await space.fillPool('closed', 0, { spec: { networkPolicyManagement: 'Managed', networkPolicy: {} } })

    const found = await space.eventually('the network policy', () => space.client.find(policy('closed')))

    expect(found['spec'].policyTypes.sort()).toEqual(['Egress', 'Ingress'])
    expect(found['spec'].egress ?? []).toEqual([])
    expect(found['spec'].ingress ?? []).toEqual([])
  })
})
