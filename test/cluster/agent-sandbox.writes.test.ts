import { expect, inject, it } from 'vitest'
import type { KubeObject } from '../../devcluster/client/kube-object.ts'
import { conditionOf } from '../../devcluster/client/manifests.ts'
import { createAuditLog } from './helpers/audit-log.ts'
import { describeWith } from './helpers/features.ts'
import { useSandboxSpace } from './helpers/sandbox-space.ts'

/** The user that the audit log shows for the controller's own requests. */
const CONTROLLER_USER = 'system:serviceaccount:agent-sandbox-system:agent-sandbox-controller'

describeWith(['agent-sandbox'], 'the watch events of a claim', () => {
  const space = useSandboxSpace('watched')

  /** Every state of one claim from its creation until it is Ready. */
  async function watchUntilReady(pool: string): Promise<KubeObject[]> {
    const collection = { ...space.path('sandboxclaims', ''), name: undefined }
    const { metadata } = await space.client.list(collection)
    const end = new AbortController()
    const timeout = AbortSignal.timeout(30_000)
    const seen: KubeObject[] = []
    const name = await space.postClaim({ pool })
    const signal = AbortSignal.any([end.signal, timeout])
    for await (const { object } of space.client.watch(collection, metadata.resourceVersion, signal)) {
      if (object.metadata.name !== name) continue
      seen.push(object)
      if (conditionOf(object, 'Ready')?.status === 'True') break
    }
    end.abort()
    return seen
  }

  const reasonsOf = (states: readonly KubeObject[]) => {
    const reasons = states.flatMap((state) => conditionOf(state, 'Ready')?.reason ?? [])
    return reasons.filter((reason, index) => reason !== reasons[index - 1])
  }

  it('changes from no condition to Ready in one step when it is warm', async () => {
    await space.fillPool('warm', 1)

    expect(reasonsOf(await watchUntilReady('warm'))).toEqual(['DependenciesReady'])
  })

  it('shows the name of a cold Sandbox before it is ready', async () => {
    await space.fillPool('cold', 0)

    const states = await watchUntilReady('cold')

    const reasons = reasonsOf(states)
    expect(reasons[0]).toBe('SandboxNotReady')
    expect(reasons.at(-1)).toBe('DependenciesReady')
    const first = states.find((state) => state['status']?.sandbox)
    expect(conditionOf(first!, 'Ready')?.status).toBe('False')
  })

  it('shows the controller changing the spec of a warm claim, which a policy must allow', async () => {
    await space.fillPool('spec', 1)

    const states = await watchUntilReady('spec')

    expect(states[0]!['spec']).not.toHaveProperty('additionalPodMetadata')
    expect(states.at(-1)!['spec'].additionalPodMetadata).toEqual({})
    expect(states.map(({ metadata }) => metadata.generation)).toContain(2)
  })

  it('shows the chosen Sandbox on the claim before the Sandbox is taken', async () => {
    await space.fillPool('record', 1)

    const states = await watchUntilReady('record')

    const recorded = states.findIndex(
      ({ metadata }) => metadata.annotations?.['agents.x-k8s.io/sandbox-name'],
    )
    const bound = states.findIndex((state) => state['status']?.sandbox)
    expect(recorded).toBeGreaterThan(-1)
    expect(recorded).toBeLessThan(bound)
  })
})

describeWith(['agent-sandbox', 'audit log'], 'the API server requests of a warm claim', () => {
  const space = useSandboxSpace('audited')
  const audit = createAuditLog(inject('cluster').auditLog)

  it('are four to six writes of the controller on the claim', async () => {
    await space.fillPool('cost', 1)

    const claim = await space.bindClaim({ pool: 'cost' })

    const about = { user: CONTROLLER_USER, namespace: space.name, name: claim.metadata.name }
    const count = (verb: string, resource: string) => audit.count({ ...about, verb, resource })
    // Two annotations, one choice and one status. A stale cache repeats some of them.
    await space.eventually('the last stamp', async () =>
      count('patch', 'sandboxclaims') >= 2 ? true : undefined,
    )
    expect(count('patch', 'sandboxclaims')).toBeLessThanOrEqual(4)
    expect(count('update', 'sandboxclaims')).toBe(1)
    expect(count('patch', 'sandboxclaims/status')).toBeGreaterThanOrEqual(1)
    expect(count('patch', 'sandboxclaims/status')).toBeLessThanOrEqual(2)
  })

  it('needs no reads: the controller reads from its caches', async () => {
    await space.fillPool('reads', 1)
    const since = new Date()

    await space.bindClaim({ pool: 'reads' })

    const reads = audit
      .events({ user: CONTROLLER_USER, namespace: space.name, since })
      .filter(({ verb }) => verb === 'get')
    expect(reads.map(({ objectRef }) => objectRef?.resource)).toEqual([])
  })
})
