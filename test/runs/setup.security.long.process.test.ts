import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import type { StartRunInput } from '../../contracts/api.ts'
import { ForkRun } from '../../contracts/api.ts'
import type { RunEnvelope } from '../../contracts/events.ts'
import { recordOf } from '../../runtime/audit/record.ts'
import { until } from '../helpers/until.ts'
import { kill, startServer } from './server-rig.ts'
import { alice, aRun, dataOf, follow, shell, typesOf } from './service-rig.ts'
import { aSetupPlace, BOTH, SETUP_ONLY, setupSettings, WORK_ONLY } from './setup-rig.ts'

type Place = Awaited<ReturnType<typeof aSetupPlace>>

/** The standard output of the agent's commands. */
const answersOf = (events: readonly RunEnvelope[]): string[] =>
  dataOf(events, 'command.output').flatMap(({ callId, stream, chunk }) =>
    callId !== undefined && stream === 'stdout' ? [chunk] : [],
  )

const waitsForTurn = ({ service }: Place, id: string) =>
  until('the run waits for a turn', async () => (await service.readRun(alice, id)).waiting?.for === 'turn')

const attempt = ({ get }: Place) => `cat setup.log node_modules/dep; ${get(SETUP_ONLY)}; ${get(WORK_ONLY)}`
const ATTEMPTED = 'once\ninstalled\n403\n200\n'

const setupOf = ({ get }: Place) => [
  `echo once >> setup.log; mkdir -p node_modules; echo installed > node_modules/dep; test "$(${get(SETUP_ONLY)})" = 200`,
]

/** A run with files of its own, which waits for a turn after its first one. */
async function aWaitingRun(place: Place) {
  const turn = [shell(attempt(place))]
  const { id } = await place.service.startRun(
    alice,
    aRun('/unused', [], {
      workspace: { kind: 'empty' },
      agent: { kind: 'scripted', plan: { turns: [turn, turn, turn] } },
      interactive: true,
      policy: { network_enabled: true, setup_commands: setupOf(place) },
    }),
  )
  await waitsForTurn(place, id)
  return id
}

it('keeps the files of the setup, and not its network, after suspend and resume', async () => {
  const place = await aSetupPlace()
  const { service } = place
  const id = await aWaitingRun(place)
  await service.suspend(alice, id)

  await service.startTurn(alice, id, { prompt: 'again', final: true })
  const events = await follow(service, id)

  expect(dataOf(events, 'run.resumed')).toEqual([{ generation: 2 }])
  expect(dataOf(events, 'setup.command')).toHaveLength(1)
  expect(answersOf(events).join('')).toBe(ATTEMPTED.repeat(2))
})

it('gives neither a fork nor a run with the files of another run a setup', async () => {
  const place = await aSetupPlace()
  const { service } = place
  const source = await aWaitingRun(place)
  const workspace: StartRunInput['workspace'] = { kind: 'run', runId: source }
  const policy = { network_enabled: true, setup_commands: setupOf(place) }

  const fork = await service.forkRun(alice, source, ForkRun.parse({ task: 'try' }))
  const ofFork = await follow(service, fork.id)
  const from = await service.startRun(alice, place.asking('/unused', [attempt(place)], { workspace }))
  const ofFrom = await follow(service, from.id)
  const asked = service.startRun(alice, place.asking('/unused', ['true'], { workspace, policy }))

  await expect(asked).rejects.toMatchObject({
    code: 'conflict',
    message: expect.stringContaining('no setup'),
  })
  for (const events of [ofFork, ofFrom]) {
    expect(answersOf(events).join('')).toBe(ATTEMPTED)
    expect(typesOf(events)).not.toContain('setup.command')
  }
  await service.cancel(alice, source)
  expect(answersOf(await follow(service, source)).join(''), 'the control').toBe(ATTEMPTED)
})

it('ignores setup commands that an agent wrote into the settings file, until a person trusts them', async () => {
  const place = await aSetupPlace()
  const { service, get, aFolder, asking } = place
  const path = aFolder('written', setupSettings('true'))
  const inPlace = { workspace: { kind: 'path', path, mode: 'in-place' } } as const
  const evil = setupSettings(`${get(SETUP_ONLY, '/evil')}; touch evil`)
  const write = `cat > .agentweaver/settings.yml <<'END'\n${evil}END`
  const runOnce = async (command: string) => {
    const { id } = await service.startRun(alice, asking(path, [command], inPlace))
    return follow(service, id)
  }

  await runOnce(write)
  const second = await runOnce('ls')

  expect(readFileSync(join(path, '.agentweaver/settings.yml'), 'utf8'), 'the attack worked').toBe(evil)
  expect(dataOf(second, 'policy.settings_ignored')).toMatchObject([{ reason: 'changed' }])
  expect(dataOf(second, 'setup.command')).toMatchObject([{ command: 'true' }])
  expect(place.served).not.toContain(`${SETUP_ONLY}/evil`)
  const { file } = await service.compareSettings(alice, { path })
  await service.trustFolder(alice, { path, digest: file.digest })
  await runOnce('ls')
  expect(place.served, 'the control').toContain(`${SETUP_ONLY}/evil`)
})

it('lets no process of a setup command reach a host of the setup after it', async () => {
  const place = await aSetupPlace()
  const { service, get, aFolder, asking, served } = place
  const loop = `while :; do test "$(${get(SETUP_ONLY, '/background')})" = 200 && touch reached; sleep 0.02; done`
  const begin = `setsid sh -c '${loop.replaceAll("'", `'\\''`)}' > /dev/null 2>&1 & while [ ! -e reached ]; do sleep 0.05; done`
  const path = aFolder('background', setupSettings(begin))

  // It takes longer than many rounds of the loop.
  const work = `${get(BOTH, '/begun')}; for i in 1 2 3 4 5 6 7 8; do ${get(BOTH, '/between')}; sleep 0.2; done; ${get(BOTH, '/ended')}`
  const { id } = await service.startRun(alice, asking(path, [work]))
  await follow(service, id)

  const begun = served.indexOf(`${BOTH}/begun`)
  expect(served.slice(0, begun), 'the control').toContain(`${SETUP_ONLY}/background`)
  expect(served.slice(begun)).toContain(`${BOTH}/ended`)
  expect(served.slice(begun)).not.toContain(`${SETUP_ONLY}/background`)
})

it('ends a setup command with the run that is cancelled, and records its outcome', async () => {
  const { service, store, aFolder, asking } = await aSetupPlace()
  const path = aFolder('cancelled', setupSettings('sleep 300'))
  const { id } = await service.startRun(alice, asking(path, ['true']))

  const events = await follow(service, id, async ({ type }) => {
    if (type === 'setup.command') await service.cancel(alice, id)
  })

  expect(dataOf(events, 'done')).toEqual([{ state: 'cancelled' }])
  expect(typesOf(events)).not.toContain('run.started')
  const records = (await store.readAudit({ runId: id, limit: 100 })).items.map(recordOf)
  const ofCommand = records.filter((record) => record?.tool === 'exec').map((record) => record?.kind)
  expect(ofCommand).toEqual(['intent', 'outcome'])
})

/** Kills a service when a command of the run has written these words. */
async function killAt(
  words: string,
  server: Awaited<ReturnType<typeof startServer>>,
  id: string,
): Promise<void> {
  const stop = new AbortController()
  try {
    for await (const envelope of server.client.streamEvents(id, { signal: stop.signal })) {
      const { event } = envelope
      if (event.type !== 'command.output' || !event.data.chunk.includes(words)) continue
      await kill(server.child)
      stop.abort()
    }
  } catch (error) {
    if (!stop.signal.aborted) throw error
  }
}

it('begins the setup again after a crash in it, and never after it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'aw-setup-restart-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, 'workspace')
  for (const name of [path, join(folder, 'tmp')]) mkdirSync(name)
  /** Runs for a long time at first, and ends at once the second time. */
  const longAtFirst = (name: string) =>
    `echo ${name} >> log; [ -e ${name}.again ] || { touch ${name}.again; echo ${name} works; sleep 300.${process.pid}; }`
  const first = await startServer(folder)
  const { id } = await first.client.startRun({
    task: 'work until killed',
    workspace: { kind: 'path', path },
    agent: { kind: 'scripted', plan: { turns: [[shell(longAtFirst('turn'), { timeout_ms: 600_000 })]] } },
    policy: { setup_commands: [longAtFirst('setup')] },
  })

  await killAt('setup works', first, id)
  const second = await startServer(folder)
  await killAt('turn works', second, id)
  const third = await startServer(folder)
  const events = await Array.fromAsync(third.client.streamEvents(id))

  expect(dataOf(events, 'done')).toEqual([{ state: 'succeeded' }])
  expect(readFileSync(join(path, 'log'), 'utf8').trim().split('\n')).toEqual([
    'setup',
    'setup',
    'turn',
    'turn',
  ])
  expect(dataOf(events, 'setup.command')).toHaveLength(2)
  expect(dataOf(events, 'setup.ended')).toMatchObject([{ succeeded: true }])
  expect(dataOf(events, 'run.interrupted')).toHaveLength(2)
  third.child.kill('SIGTERM')
})

it('continues with the files of the setup after a crash in the first turn', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'aw-setup-crash-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  mkdirSync(join(folder, 'tmp'))
  const first = await startServer(folder)
  const { id } = await first.client.startRun({
    task: 'work until killed',
    workspace: { kind: 'empty' },
    agent: { kind: 'scripted', plan: { turns: [[shell('cat dep; echo turn works; sleep 2')]] } },
    policy: { setup_commands: ['echo installed > dep'] },
  })

  await killAt('turn works', first, id)
  const second = await startServer(folder)
  const events = await Array.fromAsync(second.client.streamEvents(id))

  expect(dataOf(events, 'run.resumed')).toEqual([{ generation: 2 }])
  expect(dataOf(events, 'setup.command')).toHaveLength(1)
  expect(answersOf(events).join('')).toBe('installed\nturn works\n'.repeat(2))
  second.child.kill('SIGTERM')
})
