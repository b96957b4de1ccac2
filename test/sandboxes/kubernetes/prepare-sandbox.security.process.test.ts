import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { AGENT_HOST_PORT } from '../../../contracts/ports.ts'
import { createAgentHostClient } from '../../../runtime/agent-host-client/client.ts'
import { ANSWER_TIMEOUT_MS } from '../../../runtime/agent-host-client/verified-connections.ts'
import { startFakePod } from '../../fakes/kube/fake-pod.ts'
import type { Stored } from '../../fakes/kube/object-store.ts'
import { startSandboxController } from '../../fakes/kube/sandbox-controller.ts'
import type { FakeKubeApi } from '../../fakes/kube-api.ts'
import { until } from '../../helpers/until.ts'
import { withoutDeadline } from '../../helpers/without-deadline.ts'
import { startClaimRig } from './claim-rig.ts'
import { NAMESPACE } from './kube-rig.ts'

const QUESTION = 'GET /identity HTTP/1.1\r\nhost: agent-host\r\nconnection: keep-alive\r\n\r\n'
const KEYS_PATH = '/openid/v1/jwks'
const ELSEWHERE = '127.77.1.2'

/**
 * Starts a controller that assigns pods at `podIp` one step at a time. Restores the cluster's keys, which the start
 * replaces.
 */
function slowly(fake: FakeKubeApi, podIp: string) {
  const keys = fake.documents.get(KEYS_PATH)
  const controller = startSandboxController(fake, {
    namespace: NAMESPACE,
    serviceAccount: 'agent-host',
    podIp,
  })
  controller.stop()
  if (keys !== undefined) fake.documents.set(KEYS_PATH, keys)
  return controller
}

/** Starts a listener that sends no response and records the received data. */
async function aListener(ip: string) {
  const heard: string[] = []
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    const index = heard.push('') - 1
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
    socket.on('data', (chunk) => {
      heard[index] += chunk.toString('latin1')
    })
  }).listen(AGENT_HOST_PORT, ip)
  await once(server, 'listening')
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { heard, open: () => sockets.size }
}

async function startRig() {
  const rig = await startClaimRig()
  rig.controller.stop()
  const pod = await startFakePod(rig.fake, rig.controller.paths.pods)
  onTestFinished(() => pod.close())
  await rig.provider.start()
  const posted = async (): Promise<Stored> => {
    await until('the claim is posted', () => rig.controller.claims().length === 1)
    return rig.controller.claims()[0] as Stored
  }
  return { ...rig, pod, posted }
}

it('checks the identity and health of the pod before the claim is bound, and sends the rest after it', async () => {
  const { fake, pod, claim, posted } = await startRig()
  const controller = slowly(fake, pod.ip)
  const foreseen: string[] = []
  const claiming = claim({ onForeseen: ({ instanceId }) => foreseen.push(instanceId) })
  const object = await posted()

  const adopted = controller.adopt(object)
  await until('it is asked', () => pod.received.length === 3)
  const before = [...foreseen]
  controller.announce(object.metadata.name, adopted)
  const sandbox = await claiming
  const client = createAgentHostClient(sandbox.address, 'the-bearer')
  onTestFinished(() => client.close())
  const first = await Promise.all([1, 2].map(() => client.health(AbortSignal.timeout(60_000))))

  expect(first.map(({ state }) => state)).toEqual(['ready', 'ready'])
  expect(pod.received.slice(0, 3)).toEqual(['/identity', '/identity', '/healthz'])
  expect(pod.received.slice(3)).toEqual(['/healthz', '/healthz'])
  expect(pod.bearers).toEqual(['Bearer the-bearer', 'Bearer the-bearer'])
  expect(await sandbox.health).toMatchObject({ isolation: { reason: 'a pod of a test' } })
  expect(before).toEqual([sandbox.instanceId])
  expect(fake.count('get', 'pods')).toBe(1)
})

it('drops its connection if the sandbox has another pod when the claim is bound', async () => {
  withoutDeadline(ANSWER_TIMEOUT_MS)
  const { fake, pod, claim, posted } = await startRig()
  const gone = await aListener(ELSEWHERE)
  const claiming = claim()
  const object = await posted()
  const before = slowly(fake, ELSEWHERE)
  const adopted = before.adopt(object)
  await until('the first pod is asked', () => gone.heard.length === 1)

  const { name } = adopted.metadata
  const first = fake.store.get(before.paths.pods, name) as Stored
  fake.store.remove(before.paths.pods, name)
  const { uid: _its, ...metadata } = first.metadata
  const status = { phase: 'Running', podIP: pod.ip, podIPs: [{ ip: pod.ip }] }
  fake.store.put(before.paths.pods, { ...first, metadata, status })
  slowly(fake, pod.ip).announce(object.metadata.name, adopted)
  const sandbox = await claiming
  const client = createAgentHostClient(sandbox.address, 'the-bearer')
  onTestFinished(() => client.close())
  await client.health(AbortSignal.timeout(60_000))

  await until('the first pod is left', () => gone.open() === 0)
  await until('the other one is asked', () => pod.received.length === 4)
  expect(gone.heard).toEqual([QUESTION])
  expect(pod.received.toSorted()).toEqual(['/healthz', '/healthz', '/identity', '/identity'])
  expect(sandbox.uids.pod).not.toBe(first.metadata.uid)
})

/** Claims a sandbox while the API server's watch cache returns the pod as changed by `remember`. */
async function claimBehind(remember: (pod: Stored) => Stored | undefined) {
  const { fake, pod, claim, posted } = await startRig()
  const claiming = claim()
  const object = await posted()
  const controller = slowly(fake, pod.ip)
  fake.store.onChange(({ collection, object: changed }) => {
    if (collection === controller.paths.pods) fake.remembered.set(changed.metadata.name, remember(changed))
  })
  controller.announce(object.metadata.name, controller.adopt(object))
  const sandbox = await claiming
  const client = createAgentHostClient(sandbox.address, 'the-bearer')
  onTestFinished(() => client.close())
  const [now] = fake.store.list(controller.paths.pods)
  return { fake, pod, sandbox, now: now as Stored, asked: client.health(AbortSignal.timeout(60_000)) }
}

it.each<[string, (pod: Stored) => Stored | undefined]>([
  ['does not have it yet', () => undefined],
  ['has it without an address', (pod) => ({ ...pod, status: { phase: 'Pending' } })],
  [
    'has it without the owner reference',
    ({ metadata: { ownerReferences: _, ...metadata }, ...pod }) => ({ ...pod, metadata }),
  ],
])('reads the pod from etcd if the API server cache %s', async (_what, remember) => {
  const { fake, sandbox, now, asked } = await claimBehind(remember)

  expect(await asked).toMatchObject({ state: 'ready' })
  expect(sandbox.uids.pod).toBe(now.metadata.uid)
  expect(fake.urls.filter((url) => url.includes('/pods/')).map((url) => url.includes('?'))).toEqual([
    true,
    false,
  ])
})

it('says nothing to the successor of a pod that the API server’s memory still has', async () => {
  const uid = randomUUID()
  const { pod, sandbox, now, asked } = await claimBehind((one) => ({
    ...one,
    metadata: { ...one.metadata, uid },
  }))

  await expect(asked).rejects.toMatchObject({ code: 'identity_mismatch' })
  expect(now.metadata.uid).not.toBe(uid)
  expect(sandbox.uids.pod).toBe(uid)
  expect(new Set(pod.received)).toEqual(new Set(['/identity']))
  expect(pod.bearers).toEqual([])
})

it('takes no word of a pod for its own that makes no sense, and asks again when it is used', async () => {
  const { fake, pod, claim, posted } = await startRig()
  pod.describe({ state: 'whatever' })
  const claiming = claim()
  const object = await posted()
  const controller = slowly(fake, pod.ip)
  const adopted = controller.adopt(object)
  await until('it is asked', () => pod.received.length === 3)

  controller.announce(object.metadata.name, adopted)
  const sandbox = await claiming
  const client = createAgentHostClient(sandbox.address, 'the-bearer')
  onTestFinished(() => client.close())

  expect(await sandbox.health).toBeUndefined()
  await expect(client.health(AbortSignal.timeout(60_000))).rejects.toMatchObject({ code: 'sandbox_lost' })
})

it('disconnects from a pod whose claim fails', async () => {
  withoutDeadline(ANSWER_TIMEOUT_MS)
  const { fake, pod, controller, claim, posted } = await startRig()
  const claiming = claim()
  claiming.catch(() => undefined)
  const object = await posted()
  slowly(fake, pod.ip).adopt(object)
  await until('the pod is asked', () => pod.received.length === 3)
  const before = await pod.connections()

  controller.refuse(object.metadata.name, 'PodFailed')

  await expect(claiming).rejects.toMatchObject({ code: 'sandbox_lost' })
  await until('the pod is left', async () => (await pod.connections()) === 0)
  expect(before).toBe(2)
  expect(pod.received).toEqual(['/identity', '/identity', '/healthz'])
  expect(pod.bearers).toEqual([])
})
