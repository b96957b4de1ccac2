import { describe, expect, it, onTestFinished as onThisTestFinished, vi } from 'vitest'
import { CLAIM } from '../../../contracts/claim.ts'
import type { BoundSandbox } from '../../../runtime/sandboxes/provider.ts'
import type { Fault } from '../../fakes/kube/faults.ts'
import type { Stored } from '../../fakes/kube/object-store.ts'
import { until } from '../../helpers/until.ts'
import { startClaimRig } from './claim-rig.ts'
import { IMPATIENT_TRANSPORT, NAMESPACE } from './kube-rig.ts'

const CLAIMS_API = `${CLAIM.group}/${CLAIM.version}`
/**
 * Number of failed watch attempts. With the back-off of the tests they take about six times as long as a claim waits
 * before it suspects the watch.
 */
const UNSERVED = 30

const FAULTS: Readonly<Record<string, Fault>> = {
  'answers 429': { kind: 'status', status: 429 },
  'answers 500': { kind: 'status', status: 500 },
  'answers 503': { kind: 'status', status: 503 },
  'answers late': { kind: 'slow', ms: 200 },
  'never answers': { kind: 'silent' },
  'never answers, though it did it': { kind: 'silent', after: true },
  'resets the connection': { kind: 'reset' },
  'resets the connection, though it did it': { kind: 'reset', after: true },
  'cuts its answer': { kind: 'cut' },
}
const REQUESTS = [
  ['create', 'sandboxclaims'],
  ['get', 'pods'],
  ['delete', 'sandboxclaims'],
  ['list', 'sandboxclaims'],
  ['list', 'sandboxes'],
  ['get', '/openid/v1/jwks'],
] as const
const CASES = REQUESTS.flatMap(([verb, plural]) =>
  Object.entries(FAULTS).map(([what, fault]) => ({ verb, plural, what, fault })),
)

describe('a run’s sandbox, from its claim to its end', () => {
  // Most of the time is spent in the request timeout, so the cases run concurrently, each with its own server.
  it.concurrent.for(CASES)(
    'is claimed once and fully released when the server $what to $verb $plural',
    async ({ verb, plural, fault }, { expect, onTestFinished }) => {
      const timing = { transport: IMPATIENT_TRANSPORT }
      const { fake, claim, controller } = await startClaimRig({ timing, onTestFinished })
      fake.faults.plan({ verb, plural }, fault, fault.kind === 'slow' ? 1 : 2)

      const sandbox = await claim()
      const had = controller.claims().length
      await sandbox.release('test')

      expect(had).toBe(1)
      expect(controller.left()).toEqual([])
      expect(fake.faults.take(verb, plural), 'the fault was met').toBeUndefined()
    },
  )

  it('needs three requests besides the watches', async () => {
    // On a slow machine the provider would suspect its watches and send extra requests, so `suspectAfterMs` is high.
    const { fake, claim, provider } = await startClaimRig({ timing: { suspectAfterMs: 60_000 } })
    await provider.start()
    const before = fake.log.length

    await (await claim()).release('test')

    const asked = fake.log.slice(before).filter(({ verb }) => verb !== 'watch')
    expect(asked.map(({ verb, plural }) => `${verb} ${plural}`)).toEqual([
      'create sandboxclaims',
      'get pods',
      'delete sandboxclaims',
    ])
  })

  it.each(['reset', 'end', 'expire'] as const)(
    'is claimed although the watches %s again and again',
    async (how) => {
      const { fake, claim, controller } = await startClaimRig()
      const harm = setInterval(() => fake.watches[how](), 20)

      const sandboxes = await Promise.all(Array.from({ length: 5 }, () => claim()))
      await Promise.all(sandboxes.map((sandbox) => sandbox.release('test')))
      clearInterval(harm)

      expect(new Set(sandboxes.map(({ uids }) => uids.pod)).size).toBe(5)
      expect(controller.left()).toEqual([])
    },
  )

  it('is claimed although the watches are silent, long before their silence limit', async () => {
    const { fake, claim, provider, controller } = await startClaimRig()
    await provider.start()
    await until('both watches are open', () => fake.watches.count === 2)

    fake.watches.freeze()
    const sandbox = await claim()

    expect(controller.claims()).toHaveLength(1)
    await sandbox.release('test')
  })

  it('is claimed although the sandbox watch is interrupted and still shows the pool as owner', async () => {
    const { fake, claim, provider, controller } = await startClaimRig()
    controller.stop()
    const { sandboxes, pods } = controller.paths
    const owned = (kind: string, apiVersion: string, { name, uid }: { name: string; uid: string }) => ({
      ownerReferences: [{ apiVersion, kind, name, uid, controller: true }],
    })
    const gone = {
      metadata: { name: 'gone', namespace: NAMESPACE, uid: 'gone', resourceVersion: '0' },
    } as Stored
    const made = controller.adopt(gone)
    fake.store.remove(controller.paths.claims, 'gone')
    const { metadata } = made
    const early = fake.store.put(sandboxes, {
      ...made,
      metadata: { ...metadata, ...owned('SandboxWarmPool', CLAIMS_API, { name: 'pool', uid: 'pool' }) },
    })
    await provider.start()
    await until('both watches are open', () => fake.watches.count === 2)
    fake.faults.plan({ verb: 'watch', plural: 'sandboxes' }, { kind: 'status', status: 503 }, UNSERVED)
    fake.watches.reset()

    const claimed = claim()
    await until('the claim is there', () => controller.claims().length === 1)
    const [posted] = controller.claims()
    const ours = owned(CLAIM.kind, CLAIMS_API, posted!.metadata)
    fake.store.put(sandboxes, { ...early, metadata: { ...early.metadata, ...ours } })
    controller.announce(posted!.metadata.name, early)

    expect((await claimed).uids.sandbox).toBe(metadata.uid)
    expect(fake.store.get(pods, metadata.name)).toBeDefined()
    expect(fake.count('watch', 'sandboxes')).toBeGreaterThan(UNSERVED)
  })

  it('is released although the watch does not report its deletion', async () => {
    const { fake, claim, controller } = await startClaimRig()
    const sandbox = await claim()
    fake.watches.freeze()

    await sandbox.release('test')

    expect(controller.left()).toEqual([])
  })
})

describe('a pod that is read before its claim is bound', () => {
  it('is not used if the claim is then bound to another of our Sandboxes', async () => {
    const { controller, claim, fake } = await startClaimRig()
    controller.stop()
    const claimed = claim()
    await until('the claim is there', () => controller.claims().length === 1)
    const [posted] = controller.claims()
    const first = controller.adopt(posted!)
    await until('its pod was read ahead', () => fake.count('get', 'pods') === 1)
    fake.store.remove(controller.paths.sandboxes, first.metadata.name)
    fake.store.remove(controller.paths.pods, first.metadata.name)
    const second = controller.adopt(posted!)

    controller.announce(posted!.metadata.name, second)

    expect((await claimed).uids.sandbox).toBe(second.metadata.uid)
    expect(fake.count('get', 'pods')).toBe(2)
  })
})

describe('a controller that is away', () => {
  it('is waited for while the claim is there', async () => {
    const { controller, claim } = await startClaimRig()
    controller.stop()
    const claimed = claim()
    await until('the claim is there', () => controller.claims().length === 1)

    controller.start()

    await expect(claimed).resolves.toMatchObject({ launch: 'warm' })
  })

  it('is waited for between the Sandbox and the claim’s status', async () => {
    const { controller, claim } = await startClaimRig()
    controller.stop()
    const claimed = claim()
    await until('the claim is there', () => controller.claims().length === 1)
    const [posted] = controller.claims()
    const adopted = controller.adopt(posted!)

    controller.announce(posted!.metadata.name, adopted)

    await expect(claimed).resolves.toMatchObject({ podName: adopted.metadata.name })
  })

  it('takes nothing from a sandbox that is bound', async () => {
    const { controller, claim } = await startClaimRig()
    const sandbox = await claim()
    let lost: string | undefined
    void sandbox.lost.then((how) => {
      lost = how
    })

    controller.stop()
    controller.start()

    await until('it is given back', async () => {
      await sandbox.release('test')
      return controller.left().length === 0
    })
    expect(lost).toBeUndefined()
  })

  it('is named at the deadline, and its claim is found by the handle', async () => {
    const { controller, claim, provider } = await startClaimRig()
    controller.stop()
    const handle = provider.draft('agent-1')

    const deadline = new AbortController()
    const isPosted = Promise.withResolvers<void>()
    const onPosted = async () => isPosted.resolve()
    const claimed = claim({ claimName: 'agent-1', handle, onPosted, signal: deadline.signal })
    claimed.catch(() => undefined)
    await isPosted.promise
    deadline.abort(new DOMException('the time is over', 'TimeoutError'))

    await expect(claimed).rejects.toMatchObject({
      code: 'agent_pod_reconciler_error',
      message: expect.stringMatching(/controller has not bound the claim/),
    })
    controller.start()
    await provider.collect(handle)
    expect(controller.left()).toEqual([])
  })

  it('makes a release fail with deadline_exceeded instead of a false success', async () => {
    const { controller, claim } = await startClaimRig({ timing: { deleteMs: 400 } })
    const sandbox = await claim()
    controller.stop()

    await expect(sandbox.release('test')).rejects.toMatchObject({ code: 'deadline_exceeded' })
  })
})

describe('a clock', () => {
  it.each([-60_000, 60_000])('that is wrong by %d ms leaves a claim its time', async (wrongBy) => {
    const { controller, claim } = await startClaimRig({ clock: () => new Date(Date.now() + wrongBy) })

    await claim()

    const [posted] = controller.claims()
    const { lifecycle } = posted!['spec'] as { lifecycle: { shutdownTime: string } }
    expect(Date.parse(lifecycle.shutdownTime) - Date.now()).toBeGreaterThan(20 * 60_000)
  })
})

describe('a sandbox that is bound', () => {
  const change = { metadata: {}, status: {} }

  it('is lost if it stays not ready, for example because its node is gone', async () => {
    const { fake, controller, claim } = await startClaimRig()
    const sandbox = await claim()
    const { paths } = controller
    const object = fake.store.get(paths.sandboxes, sandbox.podName)!

    const conditions = [{ type: 'Ready', status: 'False', reason: 'DependenciesNotReady' }]
    fake.store.put(paths.sandboxes, {
      ...object,
      ...change,
      metadata: object.metadata,
      status: { conditions },
    })

    expect(await sandbox.lost).toMatch(/not ready/)
  })

  it.each(['claim', 'sandbox'] as const)(
    'is lost when its %s goes, and says that it was that',
    async (link) => {
      const { fake, controller, claim } = await startClaimRig()
      const sandbox = await claim()
      controller.stop()
      const { claims, sandboxes } = controller.paths

      if (link === 'claim') fake.store.remove(claims, sandbox.claimName)
      else fake.store.remove(sandboxes, sandbox.podName)

      expect(await sandbox.lost).toBe(`the ${link} was deleted`)
    },
  )

  it.each(['claim', 'sandbox'] as const)('is lost when its %s is about to go, and says so', async (link) => {
    const { fake, controller, claim } = await startClaimRig()
    const sandbox = await claim()
    const { claims, sandboxes } = controller.paths
    const [path, name] = link === 'claim' ? [claims, sandbox.claimName] : [sandboxes, sandbox.podName]
    const object = fake.store.get(path, name)!
    controller.stop()

    const metadata = { ...object.metadata, deletionTimestamp: new Date().toISOString() }
    fake.store.put(path, { ...object, metadata })

    expect(await sandbox.lost).toBe(`the ${link} is being deleted`)
  })

  it('is kept if it is not ready twice, each time for a moment', async () => {
    vi.useFakeTimers({ toFake: ['performance', 'setInterval', 'clearInterval'] })
    onThisTestFinished(() => void vi.useRealTimers())
    const { fake, controller, claim } = await startClaimRig({ timing: { unreadyMs: 60_000 } })
    const sandbox = await claim()
    const { paths } = controller
    const object = fake.store.get(paths.sandboxes, sandbox.podName)!
    const conditions = [{ type: 'Ready', status: 'False', reason: 'DependenciesNotReady' }]
    const unready = { ...object, status: { conditions } }
    fake.store.put(paths.sandboxes, unready)
    await until('the pod was looked at', () => fake.count('get', 'pods') > 1)
    fake.store.put(paths.sandboxes, object)
    // The same watch delivers the next claim's binding after the condition change, so the provider has seen the change.
    await claim()
    const looks = fake.count('get', 'pods')
    await vi.advanceTimersByTimeAsync(120_000)
    fake.store.put(paths.sandboxes, unready)

    const lookedAgain = until('the pod was looked at again', () => fake.count('get', 'pods') > looks)
    const state = await Promise.race([sandbox.lost, lookedAgain.then(() => 'kept')])

    expect(state).toBe('kept')
  })

  const ends = [
    ['it was given back', 0, (sandbox: BoundSandbox) => sandbox.release('test')],
    ['it was left to another process', 1, async (sandbox: BoundSandbox) => sandbox.detach()],
  ] as const
  it.each(ends)('is extended once in its time, and never after %s', async (_when, left, end) => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    onThisTestFinished(() => void vi.useRealTimers())
    const lifetime = { lifetimeMs: 180_000, extendEveryMs: 60_000 }
    const { fake, controller, claim } = await startClaimRig({ timing: { lifetime } })
    const extensions = () => fake.count('patch', 'sandboxclaims')
    const extended = (times: number) => until(`${times} extensions`, () => extensions() >= times)
    const [sandbox] = [await claim(), await claim()]
    for (const times of [2, 4]) {
      vi.advanceTimersByTime(lifetime.extendEveryMs)
      await extended(times)
    }
    const whileInUse = extensions()

    await end(sandbox)
    // The other claim is still extended, which shows that the time has passed.
    for (const times of [1, 2, 3]) {
      vi.advanceTimersByTime(lifetime.extendEveryMs)
      await extended(whileInUse + times)
    }

    expect(whileInUse).toBe(4)
    expect(extensions()).toBe(whileInUse + 3)
    expect(controller.claims()).toHaveLength(left + 1)
  })
})
