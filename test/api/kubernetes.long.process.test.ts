import { randomUUID } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { AGENT_HOST_ROUTES } from '../../contracts/routes.ts'
import { claimName } from '../../runtime/api/runs/ids.ts'
import { createClient } from '../../runtime/client/client.ts'
import { clusterEnv, startFakeCluster } from '../fakes/kube/fake-cluster.ts'
import type { FakeKubeApi } from '../fakes/kube-api.ts'
import { until } from '../helpers/until.ts'
import { makeStateDir, type OnTestFinished, spawnService, startService } from './service-process.ts'

/** A fake cluster, and processes of the real service that use it one after another. */
async function startCluster(onTestFinished: OnTestFinished) {
  const stateDir = await makeStateDir(onTestFinished)
  const cluster = await startFakeCluster(dirname(stateDir))
  onTestFinished(() => cluster.close())
  const env = { ...cluster.env, AGENTWEAVER_STATE_DIR: stateDir }
  return {
    ...cluster,
    async start() {
      const service = startService(env, onTestFinished)
      const { url, apiKeyFile } = await service.ready
      const client = createClient({ url, apiKey: (await readFile(apiKeyFile, 'utf8')).trim() })
      return { ...service, client }
    },
  }
}
type Cluster = Awaited<ReturnType<typeof startCluster>>

const aRun: Parameters<ReturnType<typeof createClient>['startRun']>[0] = {
  task: 'wait',
  workspace: { kind: 'empty' },
  agent: { kind: 'scripted', plan: { turns: [[{ kind: 'say', text: 'done' }]] } },
}

const asked = (fake: FakeKubeApi, verb: string, plural: string) => () => fake.count(verb, plural) > 0
const silent = { kind: 'silent' } as const

type Step = readonly [string, (cluster: Cluster) => () => boolean]
/** Each function holds a launch at one step and resolves when the launch is there. */
const STEPS: readonly Step[] = [
  [
    'before its claim is taken',
    ({ fake }) => {
      fake.faults.plan({ verb: 'create' }, silent, 100)
      return asked(fake, 'create', 'sandboxclaims')
    },
  ],
  [
    'when its claim is made, and not answered',
    ({ fake }) => {
      fake.faults.plan({ verb: 'create' }, { kind: 'silent', after: true }, 1)
      fake.faults.plan({ verb: 'create' }, silent, 100)
      return asked(fake, 'create', 'sandboxclaims')
    },
  ],
  [
    'when its claim is answered, and not bound',
    ({ controller }) => {
      controller.stop()
      return () => controller.claims().length > 0
    },
  ],
  [
    'when its claim is bound, and its pod not looked at',
    ({ fake }) => {
      fake.faults.plan({ verb: 'get', plural: 'pods' }, silent, 100)
      return asked(fake, 'get', 'pods')
    },
  ],
  [
    'when its pod has not said who it is',
    ({ pod }) => {
      pod.ignore(AGENT_HOST_ROUTES.identity)
      return () => pod.received.includes(AGENT_HOST_ROUTES.identity)
    },
  ],
  [
    'when its pod has not answered its configuration',
    ({ pod }) => {
      pod.ignore(AGENT_HOST_ROUTES.configure)
      return () => pod.received.includes(AGENT_HOST_ROUTES.configure)
    },
  ],
]

/** Waits until the deltas of a run are exactly this text. */
async function untilSaid(client: ReturnType<typeof createClient>, id: string, text: string): Promise<void> {
  let said = ''
  const signal = AbortSignal.timeout(TAKEOVER_MS)
  for await (const { event } of client.streamEvents(id, { signal })) {
    if (event.type === 'agent.message.delta') said += event.data.text
    if (said === text) return
    expect(text.startsWith(said), said).toBe(true)
  }
}

/** Much longer than a killed process keeps the lease of its runs. */
const TAKEOVER_MS = 150_000
vi.setConfig({ testTimeout: 3 * TAKEOVER_MS })

/** A free port may be taken by another test's API server a moment later. */
const NOBODY_URL = 'http://127.0.0.1:1'

/** Gives up by its own timeout. Started before the other tests and checked after them. */
let lonely: ReturnType<typeof spawnService>
let lonelyFolder: string
beforeAll(async () => {
  lonelyFolder = await mkdtemp(join(tmpdir(), 'aw-lonely-'))
  const env = await clusterEnv(lonelyFolder, NOBODY_URL)
  const stateDir = join(lonelyFolder, 'state')
  lonely = spawnService({ ...env, AGENTWEAVER_STATE_DIR: stateDir, AGENTWEAVER_LOCAL_WARM: '1' })
})
afterAll(async () => {
  lonely.child.kill('SIGKILL')
  await lonely.exited
  await rm(lonelyFolder, { recursive: true })
})

/** These tests wait until the lease of a killed process expires. */
describe.concurrent('after a service on a cluster was killed', () => {
  test.for(STEPS)(
    '%s, its successor launches the run again and nothing is left behind',
    async ([_when, hold], { onTestFinished }) => {
      const cluster = await startCluster(onTestFinished)
      const { fake, controller } = cluster
      const isThere = hold(cluster)
      const first = await cluster.start()
      const { id } = await first.client.startRun(aRun)
      await until('the launch has come so far', isThere)

      first.child.kill('SIGKILL')
      await first.exited
      fake.faults.clear()
      controller.start()
      const { client } = await cluster.start()

      const [former, next] = [claimName('agent', id, 1), claimName('agent', id, 2)]
      await until('the launch is begun again', () => controller.left().includes(next), TAKEOVER_MS)
      expect(controller.left()).not.toContain(former)
      await client.cancel(id)
      await until('nothing is left in the cluster', () => controller.left().length === 0)
      expect(await client.readRun(id)).toMatchObject({ state: 'cancelled' })
    },
  )

  const served = async (onTestFinished: OnTestFinished) => {
    const cluster = await startCluster(onTestFinished)
    const first = await cluster.start()
    const { id } = await first.client.startRun(aRun)
    const { pod } = cluster
    const eventsRead = () => pod.received.filter((path) => path === AGENT_HOST_ROUTES.events).length
    await until('the events are read', () => eventsRead() > 0)
    await until('the run works', async () => (await first.client.readRun(id)).state === 'running')
    first.child.kill('SIGKILL')
    await first.exited
    return { ...cluster, id, eventsRead }
  }

  test('its successor continues with the same sandbox, without configuring it again', async ({
    onTestFinished,
  }) => {
    const { start, controller, pod, id, eventsRead } = await served(onTestFinished)

    await start()

    await until('the events are read again', () => eventsRead() > 1, TAKEOVER_MS)
    expect(pod.received.filter((path) => path === AGENT_HOST_ROUTES.configure)).toHaveLength(1)
    expect(controller.claims().map(({ metadata }) => metadata.name)).toEqual([claimName('agent', id, 1)])
  })

  test('its successor emits what redaction held back, and nothing twice', async ({ onTestFinished }) => {
    const { start, pod } = await startCluster(onTestFinished)
    const delta = (text: string) => ({ type: 'agent.message.delta', data: { messageId: 'm', text } }) as const
    const first = await start()
    const { id } = await first.client.startRun(aRun)
    pod.say(delta('one line\n'), delta('and half a wo'))
    await untilSaid(first.client, id, 'one line\nand half a ')
    await until('it is acknowledged', () => pod.acknowledged.includes(1))
    first.child.kill('SIGKILL')
    await first.exited

    const { client } = await start()
    pod.say(delta('rd\n'))

    await untilSaid(client, id, 'one line\nand half a word\n')
    expect(pod.acknowledged).not.toContain(2)
  })

  test('its successor continues the run in another sandbox if the sandbox was lost, and leaves nothing behind', async ({
    onTestFinished,
  }) => {
    const { start, controller, fake, id } = await served(onTestFinished)
    for (const { metadata } of fake.store.list(controller.paths.pods))
      fake.store.remove(controller.paths.pods, metadata.name)

    const { client } = await start()

    await untilInterrupted(client, id)
    const names = () => controller.claims().map(({ metadata }) => metadata.name)
    await until('its claim is gone', () => !names().includes(claimName('agent', id, 1)))
    await client.cancel(id)
    await until('nothing is left', () => controller.left().length === 0)
  })

  test('its successor rejects another pod in place of the bound one', async ({ onTestFinished }) => {
    const { start, controller, fake, id, eventsRead } = await served(onTestFinished)
    const [former] = fake.store.list(controller.paths.pods)
    fake.store.remove(controller.paths.pods, former?.metadata.name ?? '')
    const { uid: _uid, ...metadata } = former?.metadata ?? { uid: '', name: '' }
    fake.store.put(controller.paths.pods, { ...former, metadata: { ...metadata, uid: randomUUID() } })
    const before = eventsRead()

    const { client } = await start()

    await untilInterrupted(client, id)
    expect(eventsRead(), 'until another claim is bound').toBe(before)
    await client.cancel(id)
    await until('nothing is left', () => controller.left().length === 0)
  })
})

/** The sandbox is reported as lost, and the run has left it. */
async function untilInterrupted(client: ReturnType<typeof createClient>, id: string): Promise<void> {
  const interrupted = async () => {
    const { items } = await client.readEvents(id)
    return items.some(({ event }) => event.type === 'run.interrupted' && event.data.code === 'sandbox_lost')
  }
  await until('the run is interrupted', interrupted, TAKEOVER_MS)
}

describe('a service on a cluster', () => {
  test('destroys a sandbox whose pod fails the identity check, and says why', async ({ onTestFinished }) => {
    const { start, controller, pod, fake } = await startCluster(onTestFinished)
    fake.documents.set('/openid/v1/jwks', {
      keys: [{ kty: 'EC', crv: 'P-256', kid: 'other', x: 'AA', y: 'AA' }],
    })
    const { client } = await start()

    const { id } = await client.startRun(aRun)

    await until('the run has failed', async () => (await client.readRun(id)).state === 'failed')
    expect((await client.readRun(id)).failure).toMatchObject({ code: 'identity_mismatch' })
    expect(pod.received).not.toContain(AGENT_HOST_ROUTES.configure)
    await until('nothing is left', () => controller.left().length === 0)
  })

  test('rejects a folder of this machine as a workspace', async ({ onTestFinished }) => {
    const { start } = await startCluster(onTestFinished)
    const { client } = await start()

    const started = client.startRun({ ...aRun, workspace: { kind: 'path', path: '/tmp' } })

    await expect(started).rejects.toMatchObject({ code: 'workspace_invalid' })
  })

  test('creates no claim with a name that a run could choose', async ({ onTestFinished }) => {
    const { start, controller, pod } = await startCluster(onTestFinished)
    const { client } = await start()
    await client.startRun({ ...aRun, labels: { name: `agent-${randomUUID()}` } })
    await until('the pod is configured', () => pod.received.includes(AGENT_HOST_ROUTES.configure))

    expect(controller.claims()[0]?.metadata.name).toMatch(/^agent-[0-9a-f]{40}$/)
  })
})

test('a service does not start if the cluster does not answer, and does not fall back to local sandboxes', async () => {
  expect(await lonely.exited).toBe(1)
  expect(lonely.stderr()).toMatch(/The cluster cannot be used, and there is no fallback/)
})
