import { expect, it, onTestFinished } from 'vitest'
import { CLAIM } from '../../contracts/claim.ts'
import type { KubeObject, ResourcePath } from '../../devcluster/client/kube-object.ts'
import { describeWith } from './helpers/features.ts'
import { quickPodSpec } from './helpers/pods.ts'
import { aClaim } from './helpers/sandbox-objects.ts'
import { sandboxOf, useSandboxSpace } from './helpers/sandbox-space.ts'

describeWith(['agent-sandbox'], 'the name of a Sandbox', () => {
  const space = useSandboxSpace('names')

  it('does not start with a long name of the pool and a hyphen', async () => {
    const pool = 'p'.repeat(58)
    await space.fillPool(pool, 1)

    const claim = await space.bindClaim({ pool })

    expect(sandboxOf(claim)).toMatch(/^p{58}[a-z0-9]{5}$/)
  })

  it('is the name of a cold claim of any length', async () => {
    await space.fillPool('cold', 0)
    const name = 'c'.repeat(100)

    await space.postClaim({ pool: 'cold' }, name)

    expect(sandboxOf(await space.waitForBound(name))).toBe(name)
  })

  it('must fit a Service if the template asks for one: a longer claim never becomes ready', async () => {
    await space.fillPool('served', 0, { spec: { service: true } })
    const name = 's'.repeat(64)

    await space.postClaim({ pool: 'served' }, name)

    const { message } = await space.waitForReason(name, 'ReconcilerError')
    expect(message).toMatch(/no more than 63 characters/)
  })
})

describeWith(['agent-sandbox'], 'a namespace with an exhausted quota', () => {
  const space = useSandboxSpace('quota')

  /**
   * Creates a quota and waits until it is enforced. A quota without a status rejects nothing, and a readable status is
   * not enough: the API server's admission watches quotas separately, some milliseconds behind. So this function
   * repeats a dry-run creation until admission rejects it.
   */
  async function limitToNone(resource: string, example: KubeObject): Promise<ResourcePath> {
    const name = space.unique('none')
    const quota = { apiVersion: 'v1', plural: 'resourcequotas', namespace: space.name, name }
    onTestFinished(async () => {
      if (await space.client.find(quota)) await space.client.delete(quota)
    })
    await space.client.create({
      apiVersion: 'v1',
      kind: 'ResourceQuota',
      metadata: { name, namespace: space.name },
      spec: { hard: { [resource]: '0' } },
    })
    await space.eventually(`quota ${name} to refuse`, async () => {
      const refusal = await space.client.create(example, { dryRun: 'All' }).then(() => '', String)
      return refusal.includes(`exceeded quota: ${name}`)
    })
    return quota
  }

  it('reports the quota message with the reason ReconcilerError, and binds when the quota permits it', async () => {
    const pool = space.unique('full')
    await space.fillPool(pool, 0)
    const metadata = { name: 'example', namespace: space.name }
    const quota = await limitToNone('pods', { apiVersion: 'v1', kind: 'Pod', metadata, spec: quickPodSpec() })

    const name = await space.postClaim({ pool })

    const { message } = await space.waitForReason(name, 'ReconcilerError')
    expect(message).toContain(`exceeded quota: ${quota.name}`)
    await space.client.delete(quota)
    await space.waitForBound(name)
  })

  it('refuses the claim itself if the quota counts claims', async () => {
    const pool = space.unique('counted')
    await space.fillPool(pool, 0)
    const quota = await limitToNone(
      `count/${CLAIM.plural}.${CLAIM.group}`,
      aClaim(space, 'example', { pool }),
    )

    const posted = space.postClaim({ pool })

    await expect(posted).rejects.toMatchObject({
      status: 403,
      message: expect.stringContaining(`exceeded quota: ${quota.name}`),
    })
  })
})

describeWith(['agent-sandbox'], 'a claim with its own volume', () => {
  const space = useSandboxSpace('own-volume')

  it('starts cold despite a full pool, even if the template permits volumes', async () => {
    await space.fillPool('permitted', 1, { spec: { volumeClaimTemplatesPolicy: 'Allowed' } })
    const resources = { requests: { storage: '1Mi' } }
    const volumeClaimTemplates = [
      { metadata: { name: 'own' }, spec: { accessModes: ['ReadWriteOnce'], resources } },
    ]

    const name = await space.postClaim({ pool: 'permitted', spec: { volumeClaimTemplates } })

    const bound = await space.eventually(
      'the claim to name its sandbox',
      async () => sandboxOf(await space.claim(name)) || undefined,
    )
    expect(bound).toBe(name)
    await space.eventually('the volume claim', () =>
      space.client.find(space.path('persistentvolumeclaims', `own-${name}`)),
    )
  })
})
