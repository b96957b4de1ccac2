import { randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import { CLAIM } from '../../contracts/claim.ts'
import { IDENTITY_AUDIENCE } from '../../contracts/configure.ts'
import type { KubeClient } from '../../devcluster/client/kube-client.ts'
import type { KubeObject } from '../../devcluster/client/kube-object.ts'
import { conditionOf } from '../../devcluster/client/manifests.ts'
import { aPool, CORE_API, EXTENSIONS_API } from '../../devcluster/client/sandbox-objects.ts'
import { PROVIDER_TIMING } from '../../runtime/sandboxes/kubernetes/provider-timing.ts'
import { becomeAttacker, connectTo, podToken, requestToken, startListener } from './helpers/attacker.ts'
import { describeWith } from './helpers/features.ts'
import { useNamespace } from './helpers/namespace.ts'
import { createPod, quickPodSpec } from './helpers/pods.ts'
import { claimWith, GONE_WITH_ITS_CLAIM, useProviderSpace } from './helpers/provider-space.ts'
import { aClaim, aTemplate, LABEL, PICK_ANNOTATION } from './helpers/sandbox-objects.ts'
import { sandboxOf } from './helpers/sandbox-space.ts'

/** A shorter `suspectAfterMs`, so that tests of attacks by delay end sooner. */
const impatient = { timing: { ...PROVIDER_TIMING, suspectAfterMs: 500 } }
const READY = {
  type: 'Ready',
  status: 'True',
  reason: 'DependenciesReady',
  message: '',
  lastTransitionTime: '2026-01-01T00:00:00Z',
}

describeWith(
  ['agent-sandbox'],
  'an attacker with every right on claims, Sandboxes and pods of the namespace',
  () => {
    const space = useProviderSpace('attacked')

    const statusOf = (claimName: string) => ({
      ...space.path('sandboxclaims', claimName),
      subresource: 'status',
    })

    it('has exactly these rights: the control for the following tests', async () => {
      const attacker = await becomeAttacker(space)

      const { items } = await attacker.list({ ...space.path('sandboxclaims', ''), name: undefined })

      expect(items).toEqual([])
      await expect(
        attacker.list({ apiVersion: 'v1', plural: 'secrets', namespace: space.name }),
      ).rejects.toThrow(/403/)
    })

    it('cannot make our claim take a foreign Sandbox by writing its name into the claim', async () => {
      const attacker = await becomeAttacker(space)
      const provider = await space.startProvider('absent', impatient)
      const claimName = space.unique('agent-hijacked')
      const claimed = claimWith(provider, { claimName })
      await space.eventually('our claim', () => space.client.find(space.path('sandboxclaims', claimName)))

      await attacker.create({
        apiVersion: CORE_API,
        kind: 'Sandbox',
        metadata: { name: 'evil', namespace: space.name },
        spec: { podTemplate: { spec: quickPodSpec() } },
      })
      const status = { conditions: [READY], sandbox: { name: 'evil', podIPs: ['10.66.66.66'] } }
      const keepOn = setInterval(
        () => void attacker.mergePatch(statusOf(claimName), { status }).catch(() => undefined),
        50,
      )

      await expect(claimed.finally(() => clearInterval(keepOn))).rejects.toMatchObject({
        code: 'identity_mismatch',
      })
    })

    it('cannot make a claim take the Sandbox of another run in this way', async () => {
      const attacker = await becomeAttacker(space)
      await space.fillPool('victims', 1)
      const victim = await claimWith(await space.startProvider('victims'))
      const podIPs = [(await space.pod(victim.podName))['status'].podIP as string]
      const provider = await space.startProvider('absent', impatient)
      const claimName = space.unique('agent-thief')
      const claimed = claimWith(provider, { claimName })
      await space.eventually('our claim', () => space.client.find(space.path('sandboxclaims', claimName)))

      const status = { conditions: [READY], sandbox: { name: victim.podName, podIPs } }
      const keepOn = setInterval(
        () => void attacker.mergePatch(statusOf(claimName), { status }).catch(() => undefined),
        50,
      )

      await expect(claimed.finally(() => clearInterval(keepOn))).rejects.toMatchObject({
        code: 'identity_mismatch',
      })
    })

    it('cannot give a Sandbox or a pod a second controlling owner', async () => {
      const attacker = await becomeAttacker(space)
      await space.fillPool('owned', 1)
      const sandbox = await claimWith(await space.startProvider('owned'))
      const evil = {
        apiVersion: EXTENSIONS_API,
        kind: CLAIM.kind,
        name: 'evil',
        uid: randomUUID(),
        controller: true,
      }

      for (const plural of ['sandboxes', 'pods']) {
        const { metadata } = await space.client.get(space.path(plural, sandbox.podName))
        const ownerReferences = [...(metadata.ownerReferences ?? []), evil]
        const patch = attacker.mergePatch(space.path(plural, sandbox.podName), {
          metadata: { ownerReferences },
        })
        await expect(patch, plural).rejects.toThrow(/Only one reference can have Controller set to true/)
      }
    })

    it('can take our sandbox away by giving it to another claim, but gains nothing', async () => {
      const attacker = await becomeAttacker(space)
      await space.fillPool('given', 1)
      const sandbox = await claimWith(await space.startProvider('given'))
      await attacker.create(aClaim(space, 'thief', { pool: 'nowhere' }))
      const { metadata } = await space.claim('thief')
      const thief = {
        apiVersion: EXTENSIONS_API,
        kind: CLAIM.kind,
        name: 'thief',
        uid: metadata.uid,
        controller: true,
      }

      await attacker.mergePatch(space.path('sandboxes', sandbox.podName), {
        metadata: { ownerReferences: [thief] },
      })

      expect(await sandbox.lost).toMatch(/belongs to another owner|names/)
    })

    it('cannot replace a waiting claim with one that has the same name and labels', async () => {
      const attacker = await becomeAttacker(space)
      const provider = await space.startProvider('absent', impatient)
      const claimName = space.unique('agent-replaced')
      const claimed = claimWith(provider, { claimName })
      claimed.catch(() => undefined)
      const ours = await space.eventually('our claim', () =>
        space.client.find(space.path('sandboxclaims', claimName)),
      )

      await attacker.delete(space.path('sandboxclaims', claimName))
      const { annotations = {}, labels = {} } = ours.metadata
      await attacker.create(aClaim(space, claimName, { pool: 'absent', annotations, labels }))

      await expect(claimed).rejects.toMatchObject({
        code: expect.stringMatching(/^(sandbox_lost|identity_mismatch)$/),
      })
    })

    it('cannot replace a bound claim: the run ends with sandbox_lost', async () => {
      const attacker = await becomeAttacker(space)
      await space.fillPool('twice', 2)
      const sandbox = await claimWith(await space.startProvider('twice'))
      const { metadata } = await space.claim(sandbox.claimName)

      await attacker.delete(space.path('sandboxclaims', sandbox.claimName))
      const { annotations = {}, labels = {} } = metadata
      await space.waitUntilGone('sandboxclaims', sandbox.claimName)
      await attacker.create(aClaim(space, sandbox.claimName, { pool: 'twice', annotations, labels }))

      expect(await sandbox.lost).toMatch(GONE_WITH_ITS_CLAIM)
    })

    it('cannot make a run use a pod that is being deleted', async () => {
      const attacker = await becomeAttacker(space)
      const [member] = await space.fillPool('dying', 1)
      const path = space.path('pods', member!.metadata.name)
      await attacker.mergePatch(path, { metadata: { finalizers: ['example.com/kept'] } })
      await attacker.delete(path)
      await space.eventually(
        'the pod to be dying',
        async () => (await attacker.get(path)).metadata.deletionTimestamp,
      )

      const claimed = claimWith(await space.startProvider('dying', impatient), {
        signal: AbortSignal.timeout(8_000),
      })

      const outcome = await claimed.then(
        ({ uids }) => uids.pod,
        (error: { code: string }) => error.code,
      )
      await attacker.mergePatch(path, { metadata: { finalizers: null } })
      expect(outcome).not.toBe((await podUid(member!)) ?? '')
      expect(['identity_mismatch', 'capacity_unavailable']).toContain(outcome)
    })
    const podUid = async (member: KubeObject) =>
      (await space.client.find(space.path('pods', member.metadata.name)))?.metadata.uid

    /**
     * Replaces a pool member by a member that the attacker created. The deletion of the original is blocked until the
     * forged member is ready: the pool still counts the original, so it creates no other member and has no surplus
     * member to delete.
     */
    async function slipIn(attacker: KubeClient): Promise<string> {
      const pool = space.unique('slipped')
      await space.client.create(
        aTemplate(space, pool, { podSpec: quickPodSpec({ nodeSelector: { no: 'where' } }) }),
      )
      await space.client.create(aPool(space, pool, { template: pool, replicas: 1 }))
      const { metadata } = await space.eventually('a member', async () => (await space.members(pool))[0])
      const { labels = {}, ownerReferences = [] } = metadata
      const name = `${pool}-evil`
      const own = space.path('sandboxes', metadata.name)
      const hold = (finalizers: readonly string[] | null) =>
        attacker.mergePatch(own, { metadata: { finalizers } })

      await hold(['evil.example.com/hold'])
      await attacker.delete(own)
      await attacker.create({
        apiVersion: CORE_API,
        kind: 'Sandbox',
        metadata: { name, namespace: space.name, labels, ownerReferences },
        spec: { podTemplate: { spec: quickPodSpec() } },
      })
      await space.eventually('the forged member to be ready', async () => {
        const found = await space.client.find(space.path('sandboxes', name))
        return found && conditionOf(found, 'Ready')?.status === 'True' ? true : undefined
      })
      await hold(null)
      await space.eventually('it to be the only one', async () =>
        (await space.members(pool)).length === 1 ? true : undefined,
      )
      return pool
    }

    it.each([
      ['under another runtime', { runtimeClass: 'gvisor' }, /not under gvisor/],
      ['with another service account', { serviceAccount: () => 'agent-host' }, /service account/],
    ] as const)('cannot make us use its own pool member %s', async (_what, required, words) => {
      const pool = await slipIn(await becomeAttacker(space))
      const provider = await space.startProvider(pool, { ...impatient, ...required })

      await expect(claimWith(provider)).rejects.toThrow(words)
    })

    it('can add a Sandbox that passes all these checks, so only the controller may create Sandboxes', async () => {
      const pool = await slipIn(await becomeAttacker(space))

      const sandbox = await claimWith(await space.startProvider(pool))

      expect(sandbox.podName).toBe(`${pool}-evil`)
    })

    it('cannot assign the Sandbox of another run with the annotation of a choice', async () => {
      const attacker = await becomeAttacker(space)
      await space.fillPool('picked', 2)
      const provider = await space.startProvider('picked')
      const victim = await claimWith(provider)
      const claimName = space.unique('agent-picked')
      const keepOn = setInterval(() => {
        const metadata = {
          annotations: { [PICK_ANNOTATION]: victim.podName },
          labels: { [PICK_ANNOTATION]: victim.podName },
        }
        attacker.mergePatch(space.path('sandboxclaims', claimName), { metadata }).catch(() => undefined)
      }, 5)

      const outcome = await claimWith(provider, { claimName, signal: AbortSignal.timeout(10_000) })
        .then(({ uids }) => uids.pod)
        .catch(() => 'refused')
      clearInterval(keepOn)

      expect(outcome).not.toBe(victim.uids.pod)
      expect(sandboxOf(await space.claim(victim.claimName))).toBe(victim.podName)
    })

    it('does not keep a sandbox by removing the label of its claim', async () => {
      const attacker = await becomeAttacker(space)
      await space.fillPool('labels', 1)
      const sandbox = await claimWith(await space.startProvider('labels'))

      await attacker.mergePatch(space.path('pods', sandbox.podName), {
        metadata: { labels: { [LABEL.claimUid]: 'evil' } },
      })
      await sandbox.release('test')

      expect(await space.client.find(space.path('pods', sandbox.podName))).toBeUndefined()
    })
  },
)

describeWith(['agent-sandbox'], 'the listener on the address of a pod', () => {
  const space = useProviderSpace('listening')
  const elsewhere = useNamespace('elsewhere')
  const SECRET = 'turn-bearer-of-the-run'
  const ask = AbortSignal.timeout

  async function givenSandbox() {
    const pool = space.unique('pool')
    await space.fillPool(pool, 1)
    const sandbox = await claimWith(await space.startProvider(pool))
    return { sandbox, pod: await space.pod(sandbox.podName) }
  }

  it('is accepted when it is the pinned pod with a token of this cluster', async () => {
    const { sandbox, pod } = await givenSandbox()
    const token = await podToken(space, pod)
    const listener = await startListener(() => token)

    await connectTo(sandbox, listener, SECRET).expectOk('/healthz', { signal: ask(5_000) })

    expect(listener.received).toEqual(['GET /identity', `GET /healthz Bearer ${SECRET}`])
  })

  it.each<[string, (own: { space: typeof space; pod: KubeObject }) => Promise<string>]>([
    [
      'the token of another pod',
      async () => podToken(space, await createPod(space, space.unique('other'), { spec: quickPodSpec() })),
    ],
    [
      'the token of a pod in another namespace',
      async () =>
        podToken(elsewhere, await createPod(elsewhere, elsewhere.unique('pod'), { spec: quickPodSpec() })),
    ],
    ['its own token for the API server', async ({ pod }) => requestToken(space, { pod })],
    [
      'its own token for another service',
      async ({ pod }) => requestToken(space, { pod, audience: 'api://AzureADTokenExchange' }),
    ],
    [
      'a token of the account that is bound to no pod',
      async () => requestToken(space, { audience: IDENTITY_AUDIENCE }),
    ],
    ['no token', async () => ''],
  ])('receives nothing if it presents %s', async (_what, tokenOf) => {
    const { sandbox, pod } = await givenSandbox()
    const token = await tokenOf({ space, pod })
    const listener = await startListener(() => token)

    const asked = connectTo(sandbox, listener, SECRET).request('/configure', {
      method: 'POST',
      body: 'secret',
      signal: ask(5_000),
    })

    await expect(asked).rejects.toMatchObject({ code: 'identity_mismatch' })
    expect(listener.received.filter((line) => line !== 'GET /identity')).toEqual([])
  })

  it('is verified on every new connection, so a successor on the address gets no request', async () => {
    const { sandbox, pod } = await givenSandbox()
    const other = await createPod(space, space.unique('successor'), { spec: quickPodSpec() })
    let token = await podToken(space, pod)
    const listener = await startListener(() => token)
    const connection = connectTo(sandbox, listener, SECRET)
    await connection.expectOk('/healthz', { signal: ask(5_000) })

    token = await podToken(space, other)
    listener.hangUp()
    listener.received.length = 0

    // The old connection's requests end with the connection; only a new connection can get a response.
    await space.eventually('a new connection to be refused', async () => {
      const asked = connection.request('/healthz', { signal: ask(5_000) })
      const code = await asked.then(
        () => 'answered',
        (error: { code: string }) => error.code,
      )
      if (code === 'answered') throw new Error('the successor was talked to')
      return code === 'identity_mismatch' ? true : undefined
    })
    expect(listener.received.join()).not.toContain(SECRET)
  })
})
