import { expect, it } from 'vitest'
import { CLAIM } from '../../contracts/claim.ts'
import { describeWith } from './helpers/features.ts'
import { sandboxOf, useSandboxSpace } from './helpers/sandbox-space.ts'

describeWith(['agent-sandbox'], 'the name of a sandbox', () => {
  const space = useSandboxSpace('names')

  it('does not even begin with the pool’s name and a hyphen when that name is long', async () => {
    const pool = 'p'.repeat(58)
    await space.fillPool(pool, 1)

    const claim = await space.bindClaim({ pool })

    expect(sandboxOf(claim)).toMatch(/^p{58}[a-z0-9]{5}$/)
  })

  it('is a cold claim’s name, however long that is', async () => {
    await space.fillPool('cold', 0)
    const name = 'c'.repeat(100)

    await space.postClaim({ pool: 'cold' }, name)

    expect(sandboxOf(await space.waitForBound(name))).toBe(name)
  })

  it('must fit a Service where the template asks for one: a longer claim never becomes ready', async () => {
    await space.fillPool('served', 0, { spec: { service: true } })
    const name = 's'.repeat(64)

    await space.postClaim({ pool: 'served' }, name)

    const { message } = await space.waitForReason(name, 'ReconcilerError')
    expect(message).toMatch(/no more than 63 characters/)
  })
})

describeWith(['agent-sandbox'], 'a namespace without room', () => {
  const space = useSandboxSpace('quota')

  it('shows a quota’s words in the reason ReconcilerError, and binds when there is room again', async () => {
    const quota = { apiVersion: 'v1', plural: 'resourcequotas', namespace: space.name, name: 'none' }
    await space.fillPool('full', 0)
    await space.client.create({
      apiVersion: 'v1',
      kind: 'ResourceQuota',
      metadata: { name: 'none', namespace: space.name },
      spec: { hard: { pods: '0' } },
    })
    await space.eventually('the quota to count', async () => (await space.client.get(quota))['status']?.hard)

    const name = await space.postClaim({ pool: 'full' })

    const { message } = await space.waitForReason(name, 'ReconcilerError')
    expect(message).toMatch(/exceeded quota: none/)
    await space.client.delete(quota)
    await space.waitForBound(name)
  })

  it('refuses the claim itself where claims are counted', async () => {
    await space.fillPool('counted', 0)
    const resource = `count/${CLAIM.plural}.${CLAIM.group}`
    await space.client.create({
      apiVersion: 'v1',
      kind: 'ResourceQuota',
      metadata: { name: 'claims', namespace: space.name },
      spec: { hard: { [resource]: '0' } },
    })
    const quota = { apiVersion: 'v1', plural: 'resourcequotas', namespace: space.name, name: 'claims' }
    await space.eventually('the quota to count', async () => (await space.client.get(quota))['status']?.hard)

    // Admission reads quotas from a cache of its own, which may be a moment behind.
    const refusal = await space.eventually('a claim to be refused', () =>
      space.postClaim({ pool: 'counted' }).then(
        () => undefined,
        (error: unknown) => error,
      ),
    )
    expect(refusal).toMatchObject({ status: 403 })
  })
})

describeWith(['agent-sandbox'], 'a claim with a volume of its own', () => {
  const space = useSandboxSpace('own-volume')

  it('starts cold beside a full pool, even where the template permits that', async () => {
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
