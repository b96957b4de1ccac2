import { readFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { expect, test, vi } from 'vitest'
import { createClient } from '../../runtime/client/client.ts'
import { startFakeCluster } from '../fakes/kube/fake-cluster.ts'
import { until } from '../helpers/until.ts'
import { makeStateDir, startService } from './service-process.ts'

vi.setConfig({ testTimeout: 150_000 })

test('on a cluster, has the replica from the store, the pools from the watches, and the run', async ({
  onTestFinished,
}) => {
  const stateDir = await makeStateDir(onTestFinished)
  const cluster = await startFakeCluster(dirname(stateDir))
  onTestFinished(() => cluster.close())
  const service = startService({ ...cluster.env, AGENTWEAVER_STATE_DIR: stateDir }, onTestFinished)
  const { url, apiKeyFile } = await service.ready
  const client = createClient({ url, apiKey: (await readFile(apiKeyFile, 'utf8')).trim() })
  const { id } = await client.startRun({
    task: 'work',
    workspace: { kind: 'empty' },
    agent: { kind: 'scripted', plan: { turns: [[{ kind: 'say', text: 'done' }]] } },
  })
  await until('the run works', async () => (await client.readRun(id)).state === 'running')

  const { checks, replicas, pools, work } = await client.readDiagnostics()

  expect(checks.map(({ name, ok }) => [name, ok])).toEqual([
    ['watch of claims', true],
    ['watch of sandboxes', true],
  ])
  expect(replicas).toEqual([expect.objectContaining({ isAlive: true, isThis: true })])
  expect(pools).toEqual([
    expect.objectContaining({ kind: 'agent', name: 'agentweaver-agent', claimed: 1 }),
    expect.objectContaining({ kind: 'command', name: 'agentweaver-command', claimed: 0 }),
  ])
  expect(work?.runs).toEqual({ running: 1 })
  await client.cancel(id)
})
