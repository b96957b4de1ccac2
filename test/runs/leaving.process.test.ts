import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, vi } from 'vitest'
import { StartRun } from '../../contracts/api.ts'
import { AGENT_HOST_ROUTES } from '../../contracts/routes.ts'
import { KubernetesProvider } from '../../runtime/sandboxes/kubernetes/kubernetes-provider.ts'
import { startFakeCluster } from '../fakes/kube/fake-cluster.ts'
import { until } from '../helpers/until.ts'
import { alice, startService } from './service-rig.ts'

const aRun = StartRun.parse({
  task: 'wait',
  workspace: { kind: 'empty' },
  agent: { kind: 'scripted', plan: { turns: [[{ kind: 'say', text: 'done' }]] } },
})

it('a service that hands its runs over disconnects from their sandboxes and does not change them', async ({
  onTestFinished,
}) => {
  const folder = await mkdtemp(join(tmpdir(), 'aw-leaving-'))
  const { pod, controller, env, close: closeCluster } = await startFakeCluster(folder)
  const claiming = vi.spyOn(KubernetesProvider.prototype, 'claim')
  const { service, close } = await startService(env)
  onTestFinished(async () => {
    claiming.mockRestore()
    await close()
    await closeCluster()
    await rm(folder, { recursive: true, force: true })
  })
  await service.startRun(alice, aRun)
  await until('the events are read', () => pod.received.includes(AGENT_HOST_ROUTES.events))
  const sandbox = await claiming.mock.results[0]?.value
  const detach = vi.spyOn(sandbox, 'detach')
  const release = vi.spyOn(sandbox, 'release')
  expect(await pod.connections()).toBeGreaterThan(0)

  await service.close()

  expect([detach.mock.calls.length, release.mock.calls.length]).toEqual([1, 0])
  await until('no connection is left', async () => (await pod.connections()) === 0)
  expect(controller.claims()).toHaveLength(1)
})
