import { expect, it } from 'vitest'
import { conditionOf } from '../../devcluster/client/manifests.ts'
import { aPool } from '../../devcluster/client/sandbox-objects.ts'
import { describeWith } from './helpers/features.ts'
import { aClaim, aTemplate, inSeconds, LABEL, PICK_ANNOTATION } from './helpers/sandbox-objects.ts'
import { ownersOf, sandboxOf, useSandboxSpace } from './helpers/sandbox-space.ts'

describeWith(['agent-sandbox'], 'a claim on a warm pool', () => {
  const space = useSandboxSpace('claims')

  it('takes a member of the pool, whose name does not depend on the claim', async () => {
    const members = await space.fillPool('warm', 2)

    const claim = await space.bindClaim({ pool: 'warm' })

    const name = sandboxOf(claim)
    const sandbox = await space.sandbox(name)
    expect(members.map(({ metadata }) => metadata.name)).toContain(name)
    expect(name).toMatch(/^warm-[a-z0-9]{5}$/)
    expect(ownersOf(sandbox)).toEqual([`SandboxClaim/${claim.metadata.name}`])
    expect(sandbox.metadata.labels?.[LABEL.launchType]).toBe('warm')
    expect(conditionOf(claim, 'Ready')).toMatchObject({ status: 'True', reason: 'DependenciesReady' })
    expect(claim['status'].sandbox.podIPs).toHaveLength(1)
  })

  it('keeps the name and UID of the pod', async () => {
    const [member] = await space.fillPool('same-pod', 1)
    const before = await space.pod(member!.metadata.name)

    const claim = await space.bindClaim({ pool: 'same-pod' })

    const after = await space.pod(sandboxOf(claim))
    expect(after.metadata.uid).toBe(before.metadata.uid)
    expect(ownersOf(after)).toEqual([`Sandbox/${sandboxOf(claim)}`])
  })

  it('adds the label of the claim to the pod and removes the label of the pool', async () => {
    await space.fillPool('marks', 1)

    const claim = await space.bindClaim({ pool: 'marks' })

    const labels = await space.eventually('the pod’s labels to follow', async () => {
      const found = (await space.pod(sandboxOf(claim))).metadata.labels ?? {}
      return LABEL.pool in found ? undefined : found
    })
    expect(labels[LABEL.claimUid]).toBe(claim.metadata.uid)
    expect(labels[LABEL.templateRef]).toMatch(/^[0-9a-f]{8}$/)
  })

  it('is replaced in the pool', async () => {
    await space.fillPool('refill', 1)

    const claim = await space.bindClaim({ pool: 'refill' })

    const [member] = await space.waitForPool('refill', 1)
    expect(member?.metadata.name).not.toBe(sandboxOf(claim))
  })

  it('starts cold with the name of the claim when the pool is empty', async () => {
    await space.fillPool('empty', 0)

    const claim = await space.bindClaim({ pool: 'empty' })

    expect(sandboxOf(claim)).toBe(claim.metadata.name)
    const sandbox = await space.sandbox(claim.metadata.name)
    expect(sandbox.metadata.labels?.[LABEL.launchType]).toBe('cold')
  })

  it('starts cold despite a full pool when it carries env, even if the template permits env', async () => {
    await space.fillPool('env', 1, { spec: { envVarsInjectionPolicy: 'Allowed' } })

    const claim = await space.bindClaim({ pool: 'env', spec: { env: [{ name: 'A', value: '1' }] } })

    expect(sandboxOf(claim)).toBe(claim.metadata.name)
    const pod = await space.pod(claim.metadata.name)
    expect(pod['spec'].containers[0].env).toEqual([{ name: 'A', value: '1' }])
  })

  it('assigns each member to one claim when several arrive at once', async () => {
    await space.fillPool('race', 3)

    const claims = await Promise.all(Array.from({ length: 3 }, () => space.bindClaim({ pool: 'race' })))

    expect(new Set(claims.map(sandboxOf)).size).toBe(3)
  })

  it('binds to another Sandbox without notice when its own is deleted', async () => {
    await space.fillPool('rebind', 2)
    const claim = await space.bindClaim({ pool: 'rebind' })
    const first = sandboxOf(claim)

    await space.client.delete(space.path('sandboxes', first))

    const second = await space.eventually('the claim to name another sandbox', async () => {
      const name = sandboxOf(await space.claim(claim.metadata.name))
      return name !== '' && name !== first ? name : undefined
    })
    expect(second).toMatch(/^rebind-/)
    await space.waitForBound(claim.metadata.name)
  })

  it('reports Ready with its own generation and a transition time before its creation', async () => {
    const [member] = await space.fillPool('stamps', 1)
    const readyAt = Date.parse(conditionOf(member!, 'Ready')?.lastTransitionTime ?? '')
    // Times of Kubernetes have whole seconds.
    await space.eventually('a later second', async () => (Date.now() >= readyAt + 2_000 ? true : undefined))

    const claim = await space.bindClaim({ pool: 'stamps' })

    const ready = conditionOf(claim, 'Ready')
    expect(ready?.observedGeneration).toBe(claim.metadata.generation)
    expect(Date.parse(ready?.lastTransitionTime ?? '')).toBeLessThan(
      Date.parse(claim.metadata.creationTimestamp ?? ''),
    )
  })
})

describeWith(['agent-sandbox'], 'a claim that chooses a member', () => {
  const space = useSandboxSpace('pick')

  it('gets that member with the annotation', async () => {
    const members = await space.fillPool('annotated', 3)
    const wanted = members[1]!.metadata.name

    const claim = await space.bindClaim({ pool: 'annotated', annotations: { [PICK_ANNOTATION]: wanted } })

    expect(sandboxOf(claim)).toBe(wanted)
  })

  it('gets that member with the label of the same name', async () => {
    const members = await space.fillPool('labelled', 3)
    const wanted = members[1]!.metadata.name

    const claim = await space.bindClaim({ pool: 'labelled', labels: { [PICK_ANNOTATION]: wanted } })

    expect(sandboxOf(claim)).toBe(wanted)
  })

  it('does not get a Sandbox of another claim', async () => {
    await space.fillPool('taken', 2)
    const first = await space.bindClaim({ pool: 'taken' })

    const second = await space.bindClaim({
      pool: 'taken',
      annotations: { [PICK_ANNOTATION]: sandboxOf(first) },
    })

    expect(sandboxOf(second)).not.toBe(sandboxOf(first))
    expect(sandboxOf(await space.claim(first.metadata.name))).toBe(sandboxOf(first))
  })

  it('does not get a member of another pool', async () => {
    const [foreign] = await space.fillPool('foreign', 1)
    await space.fillPool('own', 1)

    const claim = await space.bindClaim({
      pool: 'own',
      annotations: { [PICK_ANNOTATION]: foreign!.metadata.name },
    })

    expect(sandboxOf(claim)).toMatch(/^own-/)
  })
})

describeWith(['agent-sandbox'], 'a claim that is created before its template or pool', () => {
  const space = useSandboxSpace('early')

  it('reports WarmPoolNotFound and binds as soon as the pool exists', async () => {
    const name = await space.postClaim({ pool: 'late-pool' })
    await space.waitForReason(name, 'WarmPoolNotFound')

    await space.fillPool('late-pool', 0)

    await space.waitForBound(name)
  })

  it('reports TemplateNotFound and binds as soon as the template exists', async () => {
    await space.client.create(aPool(space, 'late-template', { template: 'late-template', replicas: 0 }))
    const name = await space.postClaim({ pool: 'late-template' })
    await space.waitForReason(name, 'TemplateNotFound')

    await space.client.create(aTemplate(space, 'late-template'))

    await space.waitForBound(name)
  })

  it('is rejected by strict validation when it names a template instead of a pool', async () => {
    const claim = aClaim(space, 'old-shape', { pool: 'any', spec: { sandboxTemplateRef: { name: 'any' } } })

    await expect(space.client.create(claim)).rejects.toThrow(/unknown field "spec.sandboxTemplateRef"/)
  })

  it('expires at its shutdown time even if it was never bound', async () => {
    const lifecycle = { shutdownTime: inSeconds(2), shutdownPolicy: 'Delete' }

    const name = await space.postClaim({ pool: 'never', spec: { lifecycle } })

    await space.waitUntilGone('sandboxclaims', name)
  })
})
