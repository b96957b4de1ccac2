import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { StartRun } from '../../contracts/api.ts'
import { A2A, AGENT_HOST_ROUTES } from '../../contracts/routes.ts'
import { ANSWER_TIMEOUT_MS } from '../../runtime/agent-host-client/verified-connections.ts'
import type { Transaction } from '../../runtime/store/store.ts'
import { startFakeCluster } from '../fakes/kube/fake-cluster.ts'
import type { Stored } from '../fakes/kube/object-store.ts'
import { until } from '../helpers/until.ts'
import { withoutDeadline } from '../helpers/without-deadline.ts'
import { alice, startService } from './service-rig.ts'

const { identity, healthz, configure, events, a2aBase } = AGENT_HOST_ROUTES
const TURN = `${a2aBase}/${A2A.versionPath}/message:stream`

const aRun = StartRun.parse({
  task: 'say a word',
  workspace: { kind: 'empty' },
  agent: { kind: 'scripted', plan: { turns: [[{ kind: 'say', text: 'hello' }]] } },
})

async function aCluster() {
  const folder = await mkdtemp(join(tmpdir(), 'aw-exchanges-'))
  const { pod, controller, env, close: closeCluster } = await startFakeCluster(folder)
  controller.stop()
  const { service, store, close } = await startService(env)
  onTestFinished(async () => {
    await close()
    await closeCluster()
    await rm(folder, { recursive: true, force: true })
  })
  const claimed = async (): Promise<Stored> => {
    await until('the claim is posted', () => controller.claims().length === 1)
    return controller.claims()[0] as Stored
  }
  return { pod, controller, service, store, claimed }
}

/** Each exchange is a wait of the run's: a benchmark's milliseconds scatter, their number does not. */
it('sends a ready warm pod two requests: the configuration, then the event stream together with the turn', async () => {
  const { pod, controller, service, claimed } = await aCluster()
  // Neither of the two waits for the other.
  pod.ignore(events)
  await service.startRun(alice, aRun)
  const claim = await claimed()

  const adopted = controller.adopt(claim)
  await until('the pod is asked who and how it is', () => pod.received.length === 3)
  const ahead = [...pod.received]
  controller.announce(claim.metadata.name, adopted)
  await until('both have arrived', () => pod.received.length === 6)

  expect(ahead).toEqual([identity, identity, healthz])
  expect(pod.received[3]).toBe(configure)
  expect(pod.received.slice(4).toSorted()).toEqual([TURN, events].toSorted())
  expect(await pod.connections()).toBe(2)
})

it('configures a pod once its identity is verified, even if its health check is still pending', async () => {
  // In this test, a request without a response never times out.
  withoutDeadline(ANSWER_TIMEOUT_MS)
  const { pod, controller, service, claimed } = await aCluster()
  pod.ignore(healthz)
  await service.startRun(alice, aRun)
  const claim = await claimed()

  const adopted = controller.adopt(claim)
  await until('the pod is asked how it is', () => pod.received.includes(healthz))
  controller.announce(claim.metadata.name, adopted)
  await until('it is configured', () => pod.received.includes(configure))

  expect(pod.received).toEqual([identity, identity, healthz, configure])
})

it('knows which shell runs commands in a pod as soon as the run has begun', async () => {
  const { controller, service, claimed } = await aCluster()
  const { id } = await service.startRun(alice, aRun)
  const claim = await claimed()

  controller.announce(claim.metadata.name, controller.adopt(claim))
  const shell = async () => (await service.readRun(alice, id)).sandbox?.isolation.shell
  await until('the run has begun', async () => (await shell()) !== undefined)

  expect(await shell()).toBe('bash')
})

/**
 * Paths of the requests that this process has passed to a connection, from undici's diagnostics channel. undici writes a
 * request on a connection that was used before in the next turn of the event loop.
 */
function sentFromHere(): readonly string[] {
  const sent: string[] = []
  const note = (message: unknown) => void sent.push((message as { request: { path: string } }).request.path)
  subscribe('undici:request:create', note)
  onTestFinished(() => void unsubscribe('undici:request:create', note))
  return sent
}

it('has sent the turn and asked for its events before it commits that the run has begun', async () => {
  const { pod, controller, service, store, claimed } = await aCluster()
  const sent = sentFromHere()
  let before: readonly string[] = []
  const { transaction } = store
  const noting = (tx: Transaction): Transaction => ({
    ...tx,
    changeRunState: (id, move, facts) => {
      if (move.to === 'running') before = sent.filter((path) => path === TURN || path === events)
      return tx.changeRunState(id, move, facts)
    },
  })
  Object.assign(store, {
    transaction: <T>(work: (tx: Transaction) => Promise<T>) => transaction((tx) => work(noting(tx))),
  })
  await service.startRun(alice, aRun)
  const claim = await claimed()

  controller.announce(claim.metadata.name, controller.adopt(claim))
  await until('both have arrived', () => [TURN, events].every((path) => pod.received.includes(path)))
  await until('the beginning is committed', () => before.length > 0)

  expect(before.toSorted()).toEqual([TURN, events].toSorted())
})
