import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { StartRun } from '../../contracts/api.ts'
import { A2A, AGENT_HOST_ROUTES } from '../../contracts/routes.ts'
import { startFakeCluster } from '../fakes/kube/fake-cluster.ts'
import type { Stored } from '../fakes/kube/object-store.ts'
import { until } from '../helpers/until.ts'
import { alice, startService } from './service-rig.ts'

const { identity, healthz, configure, events, a2aBase } = AGENT_HOST_ROUTES
const TURN = `${a2aBase}/${A2A.versionPath}/message:stream`

const aRun = StartRun.parse({
  task: 'say a word',
  workspace: { kind: 'empty' },
  agent: { kind: 'scripted', plan: { turns: [[{ kind: 'say', text: 'hello' }]] } },
})

/** Each exchange is a wait of the run's: a benchmark's milliseconds scatter, their number does not. */
it('exchanges two things with a warm pod behind its Ready: the configuration, then the stream beside the turn', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'aw-exchanges-'))
  const { pod, controller, env, close: closeCluster } = await startFakeCluster(folder)
  controller.stop()
  const { service, close } = await startService(env)
  onTestFinished(async () => {
    await close()
    await closeCluster()
    await rm(folder, { recursive: true, force: true })
  })
  // Neither of the two waits for the other.
  pod.ignore(events)
  await service.startRun(alice, aRun)
  await until('the claim is posted', () => controller.claims().length === 1)
  const claim = controller.claims()[0] as Stored

  const adopted = controller.adopt(claim)
  await until('the pod is asked who and how it is', () => pod.received.length === 3)
  const ahead = pod.received.toSorted()
  controller.announce(claim.metadata.name, adopted)
  await until('the turn has arrived', () => pod.received.includes(TURN))

  expect(ahead).toEqual([healthz, identity, identity].toSorted())
  expect(pod.received[3]).toBe(configure)
  expect(pod.received.slice(4).toSorted()).toEqual([TURN, events].toSorted())
  expect(await pod.connections()).toBe(2)
})
