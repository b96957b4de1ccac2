import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { apiEnv } from '../../charts-src/constructs/api-env.ts'
import { loadEnvironment } from '../../charts-src/environment/load-environment.ts'
import type { RequestedAgent } from '../../contracts/agents.ts'
import { StartRun } from '../../contracts/api.ts'
import type { OfferedModel } from '../../contracts/models.ts'
import { messageOf } from '../../runtime/kit/errors.ts'
import type { Store } from '../../runtime/store/store.ts'
import {
  aTree,
  type EnvironmentName,
  environmentText,
  type Loose,
  objectIn,
  PROXY_SIZE,
} from '../charts/fixture.ts'
import { startFakeCluster } from '../fakes/kube/fake-cluster.ts'
import { alice, bob, startService } from './service-rig.ts'

type Service = Awaited<ReturnType<typeof startService>>

/** The settings about models and the proxy that the tree of an environment gives the API, on a fake cluster. */
async function onTree(name: EnvironmentName, change: (value: Loose) => void = () => undefined) {
  const value = JSON.parse(environmentText(name)) as Loose
  change(value)
  const loaded = loadEnvironment(name, JSON.stringify(value))
  if (!loaded.ok) throw new Error(loaded.mistakes.join('\n'))
  const { environment } = loaded
  const folder = mkdtempSync(join(tmpdir(), 'aw-models-'))
  const cluster = await startFakeCluster(folder)
  onTestFinished(async () => {
    await cluster.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const policy = objectIn(aTree(environment), 'ConfigMap', 'agentweaver-policy')['data']
  writeFileSync(join(folder, 'egress.yaml'), policy['egress.yaml'])
  writeFileSync(join(folder, 'key'), 'a-key-of-the-model-server', { mode: 0o600 })
  writeFileSync(
    join(folder, 'credentials.yaml'),
    JSON.stringify({
      apiVersion: 'agentweaver.io/v1',
      kind: 'Credentials',
      credentials: [{ id: 'model', file: 'key' }],
    }),
  )
  const wanted =
    /^(?:OPENAI|AZURE_|AGENTWEAVER_(?:AGENT|OPENAI|COPILOT|FOUNDRY|MODEL|USER_VAULT|EGRESS_(?:CONTROL|PROXY)))/
  return {
    ...Object.fromEntries(Object.entries(apiEnv(environment)).filter(([key]) => wanted.test(key))),
    ...cluster.env,
    AGENTWEAVER_EGRESS_FILE: join(folder, 'egress.yaml'),
    ...('credentials' in environment.egress && {
      AGENTWEAVER_CREDENTIALS_FILE: join(folder, 'credentials.yaml'),
    }),
  }
}

const everything = (value: Loose) => {
  value['egress'].credentials = [{ id: 'model' }]
  value['sizes'].egressProxy.credentials = PROXY_SIZE.container
  value['infra'].azure.modelHost = 'aw-models.openai.azure.com'
  value['models'] = {
    openaiCompatible: {
      baseUrl: 'https://models.corp.example.com/v1',
      credential: 'model',
      names: ['a', 'b'],
    },
    copilot: { names: ['gpt-5'] },
    foundry: { names: ['gpt-5-mini', 'gpt-5'] },
  }
}

const started = async (env: Record<string, string>) => {
  const service = await startService(env)
  onTestFinished(() => service.close())
  return service
}

const connectProxy = ({ store }: { store: Store }) => store.noteProxy('a replica', true)

const agentOf = ({ kind, model = 'any-name' }: Pick<OfferedModel, 'kind' | 'model'>): RequestedAgent =>
  kind === 'scripted' ? { kind, plan: { turns: [[]] } } : { kind, model }

/** Starts a run that waits for its upload, so that it needs no sandbox. */
async function start({ service }: Service, agent: RequestedAgent) {
  const workspace = { kind: 'upload' } as const
  const run = await service.startRun(alice, StartRun.parse({ task: 'answer', workspace, agent }))
  await service.cancel(alice, run.id)
  return run
}

/** Starts a run for each row of the list. A row is right if the start ends as it says. */
async function compare(rig: Service): Promise<readonly OfferedModel[]> {
  const { items } = await rig.service.listModels(alice)
  const starts = items.map(async (item) => {
    const reason = await start(rig, agentOf(item)).then(() => undefined, messageOf)
    return { ...item, usable: reason === undefined, reason }
  })
  expect(await Promise.all(starts)).toEqual(items.map((item) => ({ reason: undefined, ...item })))
  return items
}

const usable = (items: readonly OfferedModel[]) =>
  items
    .filter((item) => item.usable)
    .map(({ kind, model }) => (model === undefined ? kind : `${kind} ${model}`))

describe('the list of models', () => {
  it.for<[string, Record<string, string>, string[], string | undefined]>([
    ['without settings', {}, ['scripted'], undefined],
    [
      'with a server and a token',
      { OPENAI_BASE_URL: 'http://127.0.0.1:9/v1', COPILOT_GITHUB_TOKEN: 'gho_a' },
      ['scripted', 'copilot', 'openaiCompatible'],
      'openaiCompatible',
    ],
    [
      'with lists',
      { COPILOT_GITHUB_TOKEN: 'gho_a', AGENTWEAVER_COPILOT_MODELS: 'x,y', AGENTWEAVER_OPENAI_MODELS: 'z' },
      ['scripted', 'copilot x', 'copilot y'],
      'copilot x',
    ],
    [
      'that offers only scripted agents',
      { COPILOT_GITHUB_TOKEN: 'gho_a', AGENTWEAVER_AGENT_KINDS: 'scripted' },
      ['scripted'],
      undefined,
    ],
  ])(
    'agrees with the start of a run for every row, on a laptop %s',
    async ([_what, env, expected, preset]) => {
      const items = await compare(await started(env))

      expect(usable(items)).toEqual(expected)
      expect(usable(items.filter((item) => item.default))[0]).toBe(preset)
    },
  )

  it('agrees with the start of a run for every row, on the committed tree without Azure', async () => {
    const items = await compare(await started(await onTree('local')))

    expect(usable(items)).toEqual(['scripted'])
    expect(items.find(({ kind }) => kind === 'copilot')?.reason).toContain('needs a GitHub token')
  })

  it('offers Copilot to the owner who has set a token, and to no other', async () => {
    const rig = await started(await onTree('local'))
    await connectProxy(rig)
    await rig.userCredentials.set(alice, 'github', { value: 'gho_aliceHasSetThisToken0123456789abcdef' })
    const items = await compare(rig)

    expect(usable(items)).toEqual(['scripted', 'copilot claude-sonnet-4.5', 'copilot gpt-5'])
    expect(usable((await rig.service.listModels(bob)).items)).toEqual(['scripted'])
  })

  it('agrees with the start of a run for every row, on the committed tree with Azure', async () => {
    const rig = await started(await onTree('prod'))
    await connectProxy(rig)
    const items = await compare(rig)

    // The vault has the tokens that owners set, and this owner has set none.
    expect(usable(items)).toEqual(['scripted'])
    expect(items.find(({ kind }) => kind === 'copilot')?.reason).toMatch(/agentweaver credential set github/)
  })

  it('agrees with the start of a run for every row, with every kind and with the proxy and without it', async () => {
    const rig = await started(await onTree('prod', everything))
    const without = await compare(rig)
    await connectProxy(rig)
    const items = await compare(rig)

    expect(usable(without)).toEqual(['scripted'])
    expect(without.find(({ kind }) => kind === 'foundry')?.reason).toMatch(/no replica of it is connected/)
    expect(usable(items)).toEqual([
      ...['scripted', 'openaiCompatible a', 'openaiCompatible b'],
      ...['foundry gpt-5-mini', 'foundry gpt-5'],
    ])
    expect(items.filter((item) => item.default)).toMatchObject([{ kind: 'openaiCompatible', model: 'a' }])
  })

  it('is the whole offer: a model that it does not name is refused, and a run without one gets the first', async () => {
    const rig = await started(await onTree('prod', everything))
    await connectProxy(rig)

    await expect(start(rig, { kind: 'foundry', model: 'gpt-4' })).rejects.toThrow(
      'does not offer the model gpt-4 for agents of kind foundry, only gpt-5-mini, gpt-5',
    )
    expect((await start(rig, { kind: 'foundry' })).agent).toEqual({ kind: 'foundry', model: 'gpt-5-mini' })
    expect((await start(rig, { kind: 'openaiCompatible' })).agent).toEqual({
      kind: 'openaiCompatible',
      model: 'a',
    })
  })
})
