import { expect, it } from 'vitest'
import { conditionOf } from '../../devcluster/client/manifests.ts'
import { aPool, CORE_API } from '../../devcluster/client/sandbox-objects.ts'
import { describeWith } from './helpers/features.ts'
import { aTemplate, LABEL } from './helpers/sandbox-objects.ts'
import { sandboxOf, useSandboxSpace } from './helpers/sandbox-space.ts'

const env = [{ name: 'A', value: '1' }]
const volumeClaimTemplates = [
  {
    metadata: { name: 'extra' },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Mi' } } },
  },
]

describeWith(['agent-sandbox'], 'a claim that the controller rejects', () => {
  const space = useSandboxSpace('refused')

  it('reports EnvVarsInjectionRejected when the template does not permit env', async () => {
    await space.fillPool('no-env', 0)

    const name = await space.postClaim({ pool: 'no-env', spec: { env } })

    await space.waitForReason(name, 'EnvVarsInjectionRejected')
  })

  it('reports EnvVarsInjectionRejected for a container with envFrom', async () => {
    const podSpec = {
      containers: [{ name: 'main', image: 'x', envFrom: [{ configMapRef: { name: 'any' } }] }],
    }
    await space.fillPool('env-from', 0, { podSpec, spec: { envVarsInjectionPolicy: 'Allowed' } })

    const name = await space.postClaim({ pool: 'env-from', spec: { env } })

    await space.waitForReason(name, 'EnvVarsInjectionRejected')
  })

  it('reports ReconcilerError when it overrides a variable of the template', async () => {
    const podSpec = { containers: [{ name: 'main', image: 'x', env: [{ name: 'A', value: '0' }] }] }
    await space.fillPool('override', 0, { podSpec, spec: { envVarsInjectionPolicy: 'Allowed' } })

    const name = await space.postClaim({ pool: 'override', spec: { env } })

    const { message } = await space.waitForReason(name, 'ReconcilerError')
    expect(message).toMatch(/override/)
  })

  it('has reason VolumeClaimTemplatesError when the template does not permit volumes in claims', async () => {
    await space.fillPool('no-volumes', 0)

    const name = await space.postClaim({ pool: 'no-volumes', spec: { volumeClaimTemplates } })

    await space.waitForReason(name, 'VolumeClaimTemplatesError')
  })

  it.each([
    ['a label without a domain', { labels: { team: 'a' } }],
    ['a label of a domain that is not on the list', { labels: { 'example.com/team': 'a' } }],
    ['an annotation of a reserved domain', { annotations: { 'kubernetes.io/team': 'a' } }],
  ])('says InvalidMetadata for %s', async (_what, additionalPodMetadata) => {
    const pool = space.unique('metadata')
    await space.fillPool(pool, 0)

    const name = await space.postClaim({ pool, spec: { additionalPodMetadata } })

    await space.waitForReason(name, 'InvalidMetadata')
  })

  it('reports ReconcilerError when it changes a label of the template', async () => {
    await space.fillPool('conflict', 0, { podMetadata: { labels: { 'sandbox.users.io/team': 'a' } } })
    const labels = { 'sandbox.users.io/team': 'b' }

    const name = await space.postClaim({ pool: 'conflict', spec: { additionalPodMetadata: { labels } } })

    const { message } = await space.waitForReason(name, 'ReconcilerError')
    expect(message).toMatch(/metadata override conflict/)
  })

  it('has reason ReconcilerError when a foreign sandbox has its name', async () => {
    await space.fillPool('squatter', 0)
    await space.client.create({
      apiVersion: CORE_API,
      kind: 'Sandbox',
      metadata: { name: 'squatted', namespace: space.name },
      spec: { podTemplate: { spec: { containers: [{ name: 'main', image: 'x' }] } } },
    })

    await space.postClaim({ pool: 'squatter' }, 'squatted')

    await space.waitForReason('squatted', 'ReconcilerError')
  })

  // The controller queues a claim at every event of that claim, its own writes included, at an edit of the pool's spec,
  // and at the creation of a template, but not at an edit of a template. With a refusal the controller writes to the
  // claim twice (an annotation, the reason), so it reconciles the claim once more just after a reader can see the
  // reason. A test that fixes the template in that moment would see the claim bound. So the tests first wait until a
  // later claim is bound: by then the queue has processed all earlier events.
  async function letQueuePass(): Promise<void> {
    const later = space.unique('later')
    await space.fillPool(later, 0)
    await space.bindClaim({ pool: later })
  }

  async function refuseThenMend(): Promise<{ pool: string; name: string }> {
    const pool = space.unique('mended')
    await space.fillPool(pool, 0)
    const name = await space.postClaim({ pool, spec: { env } })
    await space.waitForReason(name, 'EnvVarsInjectionRejected')
    await letQueuePass()
    await space.client.mergePatch(space.path('sandboxtemplates', pool), {
      spec: { envVarsInjectionPolicy: 'Allowed' },
    })
    await letQueuePass()
    return { pool, name }
  }

  it('is not retried when its template is fixed', async () => {
    const { name } = await refuseThenMend()

    const claim = await space.claim(name)

    expect(sandboxOf(claim)).toBe('')
    expect(conditionOf(claim, 'Ready')?.reason).toBe('EnvVarsInjectionRejected')
  })

  it('is retried at its next event of any kind: a refusal is not final while the claim exists', async () => {
    const { name } = await refuseThenMend()

    await space.client.mergePatch(space.path('sandboxclaims', name), {
      metadata: { annotations: { poke: 'x' } },
    })

    await space.waitForBound(name)
  })

  it('is retried when its pool is edited', async () => {
    const { pool, name } = await refuseThenMend()

    const spec = { updateStrategy: { type: 'Recreate' } }
    await space.client.mergePatch(space.path('sandboxwarmpools', pool), { spec })

    await space.waitForBound(name)
  })
})

describeWith(['agent-sandbox'], 'metadata of a claim', () => {
  const space = useSandboxSpace('metadata')

  it('reaches the running pod of a warm sandbox', async () => {
    await space.fillPool('adds', 1)
    const labels = { 'sandbox.users.io/run': 'r1' }

    const claim = await space.bindClaim({ pool: 'adds', spec: { additionalPodMetadata: { labels } } })

    await space.eventually('the label on the pod', async () =>
      (await space.pod(sandboxOf(claim))).metadata.labels?.['sandbox.users.io/run'] === 'r1'
        ? true
        : undefined,
    )
  })

  it('turns a healthy claim to WarmPoolNotFound when its pool is deleted', async () => {
    await space.fillPool('gone', 1)
    const labels = { 'sandbox.users.io/run': 'r1' }
    const claim = await space.bindClaim({ pool: 'gone', spec: { additionalPodMetadata: { labels } } })

    await space.client.delete(space.path('sandboxwarmpools', 'gone'))
    // The controller reconciles when the claim changes, and may not know of the pool's deletion at the first change.
    let pokes = 0
    const reason = await space.eventually('the claim to say that its pool is gone', async () => {
      const annotations = { poke: String(++pokes) }
      const claimPath = space.path('sandboxclaims', claim.metadata.name)
      await space.client.mergePatch(claimPath, { metadata: { annotations } })
      const ready = conditionOf(await space.client.get(claimPath), 'Ready')
      return ready?.status === 'False' ? ready.reason : undefined
    })
    expect(reason).toBe('WarmPoolNotFound')
    await space.pod(sandboxOf(claim))
  })

  it('loses labels of the controller in a template without notice, and keeps all others', async () => {
    const labels = { 'example.com/kept': 'yes', 'agents.x-k8s.io/forged': 'yes' }
    const [member] = await space.fillPool('forged', 1, { podMetadata: { labels } })

    const pod = await space.pod(member!.metadata.name)

    expect(pod.metadata.labels).toMatchObject({ 'example.com/kept': 'yes' })
    expect(pod.metadata.labels).not.toHaveProperty(['agents.x-k8s.io/forged'])
  })

  it('moves a running pod to the policies of another template when the pool of the claim is edited', async () => {
    await space.fillPool('strict', 1)
    await space.client.create(aTemplate(space, 'lax'))
    await space.client.create(aPool(space, 'lax', { template: 'lax', replicas: 0 }))
    const claim = await space.bindClaim({ pool: 'strict' })
    const before = (await space.pod(sandboxOf(claim))).metadata.labels?.[LABEL.templateRef]

    const spec = { warmPoolRef: { name: 'lax' } }
    await space.client.mergePatch(space.path('sandboxclaims', claim.metadata.name), { spec })

    const after = await space.eventually('the pod to carry another template’s label', async () => {
      const found = (await space.pod(sandboxOf(claim))).metadata.labels?.[LABEL.templateRef]
      return found !== before ? found : undefined
    })
    expect(after).toMatch(/^[0-9a-f]{8}$/)
    expect(sandboxOf(await space.claim(claim.metadata.name))).toBe(sandboxOf(claim))
  })
})
