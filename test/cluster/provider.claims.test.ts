import { randomUUID } from 'node:crypto'
import { expect, inject, it } from 'vitest'
import { CLAIM } from '../../contracts/claim.ts'
import { CLAIM_NONCE_ANNOTATION, DEPLOYMENT_LABEL, KIND_LABEL } from '../../contracts/labels.ts'
import { readKubeconfig } from '../../devcluster/client/kubeconfig.ts'
import { aPool } from '../../devcluster/client/sandbox-objects.ts'
import type { KubeConnection } from '../../runtime/sandboxes/kubernetes/client/kube-connection.ts'
import { PROVIDER_TIMING } from '../../runtime/sandboxes/kubernetes/provider-timing.ts'
import { requestToken } from './helpers/attacker.ts'
import { createAuditLog } from './helpers/audit-log.ts'
import { describeWith } from './helpers/features.ts'
import { claimWith, GONE_WITH_ITS_CLAIM, useProviderSpace } from './helpers/provider-space.ts'
import { aClaim, aTemplate } from './helpers/sandbox-objects.ts'
import { sandboxOf } from './helpers/sandbox-space.ts'
import { untilAllowed } from './helpers/until-allowed.ts'

describeWith(['agent-sandbox'], 'a sandbox of the Kubernetes provider', () => {
  const space = useProviderSpace('provided')

  it('is a warm member of the pool with the UIDs of claim, Sandbox and pod', async () => {
    const [member] = await space.fillPool('warm', 1)
    const provider = await space.startProvider('warm')
    const uids: string[] = []

    const sandbox = await claimWith(provider, { uids })

    const pod = await space.pod(sandbox.podName)
    const claim = await space.claim(sandbox.claimName)
    expect(sandbox).toMatchObject({ launch: 'warm', namespace: space.name, instanceId: pod.metadata.uid })
    expect(sandbox.uids).toEqual({
      claim: claim.metadata.uid,
      sandbox: member?.metadata.uid,
      pod: pod.metadata.uid,
    })
    expect(uids).toEqual([claim.metadata.uid])
    expect(sandbox.address).toMatchObject({ baseUrl: `http://${pod['status'].podIP}:8088` })
  })

  it('is requested with a shutdown time and labels, and without fields that cause a cold start', async () => {
    await space.fillPool('shape', 1)
    const provider = await space.startProvider('shape')
    const before = Date.now()

    const { claimName, handle } = await claimWith(provider)
    const after = Date.now()

    const { metadata, spec } = (await space.claim(claimName)) as unknown as Record<
      string,
      Record<string, never>
    >
    expect(metadata?.['labels']).toMatchObject({ [DEPLOYMENT_LABEL]: 'test', [KIND_LABEL]: 'agent' })
    expect(metadata?.['annotations']?.[CLAIM_NONCE_ANNOTATION]).toBe((handle as { nonce: string }).nonce)
    expect(spec).toMatchObject({
      lifecycle: { shutdownPolicy: 'Delete', ttlSecondsAfterFinished: 600 },
      warmPoolRef: { name: 'shape' },
    })
    expect(spec).not.toHaveProperty('env')
    const createdAt =
      Date.parse(spec?.['lifecycle']?.['shutdownTime'] ?? '') - PROVIDER_TIMING.lifetime.lifetimeMs
    // The shutdown time has whole seconds.
    expect(createdAt).toBeGreaterThan(before - 1_000)
    expect(createdAt).toBeLessThan(after + 1_000)
  })

  it('is cold, and reported as cold, when the pool is empty', async () => {
    await space.fillPool('cold', 0)
    const provider = await space.startProvider('cold')

    const sandbox = await claimWith(provider)

    expect(sandbox).toMatchObject({ launch: 'cold', podName: sandbox.claimName })
  })

  it('is deleted with its Sandbox and its pod when its release has ended', async () => {
    await space.fillPool('released', 1)
    const provider = await space.startProvider('released')
    const sandbox = await claimWith(provider)

    await sandbox.release('test')

    const { podName, claimName } = sandbox
    for (const [plural, name] of [
      ['sandboxclaims', claimName],
      ['sandboxes', podName],
      ['pods', podName],
    ] as const)
      expect(await space.client.find(space.path(plural, name)), plural).toBeUndefined()
  })

  it('is a different pod for each parallel claim', async () => {
    await space.fillPool('many', 4)
    const provider = await space.startProvider('many')

    const sandboxes = await Promise.all(Array.from({ length: 6 }, () => claimWith(provider)))

    expect(new Set(sandboxes.map(({ uids }) => uids.pod)).size).toBe(6)
    await Promise.all(sandboxes.map((sandbox) => sandbox.release('test')))
  })

  it('waits for a pool that is created later', async () => {
    const provider = await space.startProvider('late')
    const claimed = claimWith(provider)

    await space.client.create(aTemplate(space, 'late'))
    await space.client.create(aPool(space, 'late', { template: 'late', replicas: 0 }))

    expect((await claimed).launch).toBe('cold')
  })

  it('fails with the missing pool at its deadline, and leaves no claim', async () => {
    const provider = await space.startProvider('never')
    const claimName = space.unique('agent-never')
    const handle = provider.draft(claimName)

    const claimed = claimWith(provider, { claimName, handle, signal: AbortSignal.timeout(2_000) })

    await expect(claimed).rejects.toMatchObject({
      code: 'agent_pod_reconciler_error',
      message: expect.stringMatching(/WarmPoolNotFound.*"never"/),
    })
    await provider.collect(handle)
    expect(await space.client.find(space.path('sandboxclaims', claimName))).toBeUndefined()
  })

  it('fails immediately with the quota message when the namespace is full', async () => {
    await space.fillPool('full', 0)
    const quota = { apiVersion: 'v1', plural: 'resourcequotas', namespace: space.name, name: 'none' }
    await space.client.create({
      apiVersion: 'v1',
      kind: 'ResourceQuota',
      metadata: { name: 'none', namespace: space.name },
      spec: { hard: { pods: '0' } },
    })
    await space.eventually('the quota to count', async () => (await space.client.get(quota))['status']?.hard)
    const provider = await space.startProvider('full')
    const claimName = space.unique('agent-full')
    const handle = provider.draft(claimName)

    const claimed = claimWith(provider, { claimName, handle })

    await expect(claimed).rejects.toMatchObject({
      code: 'agent_quota_exceeded',
      message: expect.stringMatching(/exceeded quota: none/),
    })
    await space.client.delete(quota)
    await provider.collect(handle)
  })
})

describeWith(['agent-sandbox', 'audit log'], 'a sandbox in the audit log', () => {
  const space = useProviderSpace('audited')
  const audit = createAuditLog(inject('cluster').auditLog)

  it('costs three requests from us: create the claim, get the pod, delete the claim', async () => {
    await space.fillPool('requests', 1)
    const provider = await space.startProvider('requests')
    const sandbox = await claimWith(provider)
    await sandbox.release('test')

    const own = () =>
      [sandbox.claimName, sandbox.podName].flatMap((name) =>
        audit
          .events({ namespace: space.name, name, user: 'kubernetes-admin' })
          .map(({ verb, objectRef }) => `${verb} ${objectRef?.resource}`),
      )
    await space.eventually('the deletion to be in the log', async () => own().length >= 3 || undefined)

    expect(own().sort()).toEqual(['create sandboxclaims', 'delete sandboxclaims', 'get pods'])
  })
})

describeWith(['agent-sandbox'], 'a claim name that exists', () => {
  const space = useProviderSpace('taken')

  it('is refused if the claim belongs to another service, and the claim stays unchanged', async () => {
    await space.fillPool('foreign', 1)
    const provider = await space.startProvider('foreign')
    const claimName = space.unique('agent-foreign')
    const handle = provider.draft(claimName)
    await space.client.create(
      aClaim(space, claimName, { pool: 'foreign', labels: { [DEPLOYMENT_LABEL]: 'test' } }),
    )
    const { metadata } = await space.claim(claimName)

    await expect(claimWith(provider, { claimName, handle })).rejects.toMatchObject({ code: 'conflict' })
    await provider.collect(handle)

    expect((await space.claim(claimName)).metadata.uid).toBe(metadata.uid)
  })

  it('is reused if the claim is our own, from an attempt whose response was lost', async () => {
    await space.fillPool('own', 1)
    const provider = await space.startProvider('own')
    const claimName = space.unique('agent-own')
    const handle = provider.draft(claimName)
    const first = await claimWith(provider, { claimName, handle })

    const second = await claimWith(provider, { claimName, handle })

    expect(second.uids).toEqual(first.uids)
  })

  it('is used by one of two replicas that claim for the same run', async () => {
    await space.fillPool('replicas', 2)
    const [one, two] = await Promise.all([space.startProvider('replicas'), space.startProvider('replicas')])
    const claimName = `agent-${randomUUID()}`

    const both = await Promise.allSettled([one, two].map((provider) => claimWith(provider, { claimName })))

    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    expect(both.find(({ status }) => status === 'rejected')).toMatchObject({ reason: { code: 'conflict' } })
    expect(sandboxOf(await space.claim(claimName))).not.toBe('')
  })
})

describeWith(['agent-sandbox'], 'the life of a claim', () => {
  const space = useProviderSpace('life')
  /** Longer than a slow machine needs to bind a claim. */
  const quick = { ...PROVIDER_TIMING, lifetime: { lifetimeMs: 20_000, extendEveryMs: 1_000 } }

  it('is extended while its sandbox is in use, and expires afterwards', async () => {
    await space.fillPool('extended', 1)
    const provider = await space.startProvider('extended', { timing: quick })
    const { claimName } = await claimWith(provider)
    const endOf = async () => (await space.claim(claimName))['spec'].lifecycle.shutdownTime as string
    const first = await endOf()

    await space.eventually('the end to move', async () => (await endOf()) > first || undefined)
    await provider.close()

    await space.waitUntilGone('sandboxclaims', claimName)
  })

  it('is lost when its Sandbox is deleted, although the claim binds another one by itself', async () => {
    await space.fillPool('rebinds', 2)
    const provider = await space.startProvider('rebinds')
    const sandbox = await claimWith(provider)

    await space.client.delete(space.path('sandboxes', sandbox.podName))

    expect(await sandbox.lost).toMatch(/sandbox (was|is being) deleted|names/)
    await sandbox.release('test')
  })

  it('is lost when its pod is deleted, although the Sandbox creates another pod with the same name', async () => {
    await space.fillPool('recreated', 1)
    const provider = await space.startProvider('recreated')
    const sandbox = await claimWith(provider)

    await space.client.delete(space.path('pods', sandbox.podName))

    expect(await sandbox.lost).toMatch(/pod/)
    await sandbox.release('test')
  })

  it('is lost when the claim is deleted', async () => {
    await space.fillPool('deleted', 1)
    const provider = await space.startProvider('deleted')
    const sandbox = await claimWith(provider)

    await space.client.delete(space.path('sandboxclaims', sandbox.claimName))

    expect(await sandbox.lost).toMatch(GONE_WITH_ITS_CLAIM)
    await sandbox.release('test')
  })
})

describeWith(['agent-sandbox', 'audit log'], 'the permissions of the service account', () => {
  const space = useProviderSpace('rights')
  const audit = createAuditLog(inject('cluster').auditLog)
  const rbac = 'rbac.authorization.k8s.io'
  const rules = [
    {
      apiGroups: [CLAIM.group],
      resources: [CLAIM.plural],
      verbs: ['create', 'delete', 'get', 'list', 'patch', 'watch'],
    },
    {
      apiGroups: [CLAIM.group.replace('extensions.', '')],
      resources: ['sandboxes'],
      verbs: ['list', 'watch'],
    },
    { apiGroups: [''], resources: ['pods'], verbs: ['get'] },
  ]

  async function connectAs(account: string): Promise<KubeConnection> {
    const metadata = { name: account, namespace: space.name }
    await space.client.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata })
    await space.client.create({ apiVersion: `${rbac}/v1`, kind: 'Role', metadata, rules })
    await space.client.create({
      apiVersion: `${rbac}/v1`,
      kind: 'RoleBinding',
      metadata,
      roleRef: { apiGroup: rbac, kind: 'Role', name: account },
      subjects: [{ kind: 'ServiceAccount', ...metadata }],
    })
    await untilAllowed(space.client, metadata, { namespace: space.name, rules })
    const token = await requestToken(space, { account })
    const { server, ca } = readKubeconfig(inject('cluster').kubeconfig)
    return {
      server,
      tls: { ...(ca && { ca }) },
      authenticate: async () => ({ authorization: `Bearer ${token}` }),
    }
  }

  it('are sufficient, and each one is used', async () => {
    await space.fillPool('rights', 1)
    const connection = await connectAs('narrow')
    const timing = { ...PROVIDER_TIMING, lifetime: { lifetimeMs: 60_000, extendEveryMs: 300 } }
    const provider = await space.startProvider('rights', { connect: async () => connection, timing })

    const sandbox = await claimWith(provider)
    const endOf = async () => String((await space.claim(sandbox.claimName))['spec'].lifecycle.shutdownTime)
    const end = await endOf()
    await space.eventually('an extension', async () => (await endOf()) > end || undefined)
    await provider.collect(sandbox.handle)

    expect(await space.client.find(space.path('pods', sandbox.podName))).toBeUndefined()
    const user = `system:serviceaccount:${space.name}:narrow`
    const used = () => {
      const asked = audit.events({ user, namespace: space.name })
      return new Set(asked.map(({ verb, objectRef }) => `${verb} ${objectRef?.resource}`))
    }
    const granted = rules.flatMap(({ resources, verbs }) => verbs.map((verb) => `${verb} ${resources[0]}`))
    await space.eventually(
      'every right to be in the log',
      async () => used().size === granted.length || undefined,
    )
    expect([...used()].sort()).toEqual(granted.toSorted())
    expect(audit.events({ user }).filter(({ responseStatus }) => responseStatus?.code === 403)).toEqual([])
  })
})
