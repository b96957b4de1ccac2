import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished, vi } from 'vitest'
import { CreateSandbox, StartCommand } from '../../contracts/api.ts'
import type { Caller } from '../../runtime/api/runs/service.ts'
import { commandShell } from '../../runtime/executors/command-shell.ts'
import { startTimeOf } from '../../runtime/kit/start-time.ts'
import type { Transaction } from '../../runtime/store/store.ts'
import { processesWith } from '../helpers/processes-with.ts'
import { until } from '../helpers/until.ts'
import {
  alice,
  aRun,
  bob,
  dataOf,
  follow,
  operator,
  shell,
  startService,
  tool,
  typesOf,
  useService,
} from './service-rig.ts'

const use = useService({ AGENTWEAVER_LOCAL_WARM: '1' })

it('runs a plan in its own sandbox and leaves only the changed workspace', async () => {
  const { service, store, aWorkspace } = use()
  const path = aWorkspace()
  writeFileSync(join(path, 'a.txt'), 'old\n')

  const run = await service.startRun(
    alice,
    aRun(path, [
      tool('report_intent', { intent: 'change a.txt' }),
      tool('str_replace_editor', { path: 'a.txt', old_str: 'old', new_str: 'new' }),
      shell('cat a.txt; echo oops >&2; exit 3'),
      tool('report_outcome', { outcome: 'succeeded', summary: 'changed it' }),
    ]),
  )
  const events = await follow(service, run.id)

  expect(typesOf(events).slice(0, 3)).toEqual(['run.queued', 'policy.settings_trusted', 'sandbox.selected'])
  expect(dataOf(events, 'sandbox.selected')[0]?.shell).toBe(commandShell().name)
  expect(dataOf(events, 'agent.intent')[0]?.intent).toBe('change a.txt')
  const output = dataOf(events, 'command.output')
  expect(output.map(({ stream, chunk }) => [stream, chunk])).toEqual(
    expect.arrayContaining([
      ['stdout', 'new\n'],
      ['stderr', 'oops\n'],
    ]),
  )
  expect(
    dataOf(events, 'tool.result').find(({ tool: name }) => name === 'run_command')?.outcome,
  ).toMatchObject({ ok: true, facts: { exitCode: 3 } })
  expect(dataOf(events, 'run.outcome')).toEqual([{ outcome: 'succeeded', summary: 'changed it' }])
  expect(readFileSync(join(path, 'a.txt'), 'utf8')).toBe('new\n')
  const ended = await service.readRun(alice, run.id)
  expect(ended).toMatchObject({ state: 'succeeded', outcome: { outcome: 'succeeded' } })
  const claim = (await store.listClaims(['released'])).find(({ runId }) => runId === run.id)
  expect(claim).toMatchObject({ runId: run.id, generation: 1 })
  const { pid, startTime } = claim!.handle as { pid: number; startTime: string }
  expect(startTimeOf(pid)).not.toBe(startTime)
})

it('says that the outcome failed when the agent says so', async () => {
  const { service, aWorkspace } = use()

  const run = await service.startRun(
    alice,
    aRun(aWorkspace(), [tool('report_outcome', { outcome: 'failed', summary: 'no luck' })]),
  )
  const events = await follow(service, run.id)

  expect(dataOf(events, 'done')).toEqual([{ state: 'failed' }])
  expect((await service.readRun(alice, run.id)).outcome).toEqual({ outcome: 'failed', summary: 'no luck' })
})

it('serves further turns in the same conversation and ends after the last one', async () => {
  const { service, aWorkspace } = use()
  const plan = { turns: [[{ kind: 'say' as const, text: 'one' }], [{ kind: 'say' as const, text: 'two' }]] }
  const run = await service.startRun(alice, {
    ...aRun(aWorkspace(), []),
    agent: { kind: 'scripted', plan },
    interactive: true,
  })

  let asked = false
  const events = await follow(service, run.id, async (event) => {
    if (event.type !== 'turn.ended' || asked) return
    asked = true
    await service.startTurn(alice, run.id, { prompt: 'go on', final: true })
  })

  expect(dataOf(events, 'agent.message').map(({ text }) => text)).toEqual(['one', 'two'])
  expect(typesOf(events).filter((type) => type === 'sandbox.execution_pod.bound')).toHaveLength(1)
})

it('cancels a running turn and kills its processes', async () => {
  const { service, aWorkspace } = use()
  const path = aWorkspace()
  const odd = `${300 + Math.random()}`
  const run = await service.startRun(alice, aRun(path, [shell(`sleep ${odd} & echo started; wait`)]))

  let running: readonly number[] = []
  const events = await follow(service, run.id, async (event) => {
    if (event.type !== 'command.output') return
    running = processesWith(odd)
    const cancelled = await service.cancel(alice, run.id)
    expect(['ending', 'cancelled']).toContain(cancelled.state)
  })

  expect(dataOf(events, 'done')).toEqual([{ state: 'cancelled' }])
  expect(running.length).toBeGreaterThan(0)
  await until('nothing of it runs any more', () => processesWith(odd).length === 0)
})

it('fails a run with sandbox_lost when its AgentHost dies in mid-turn, and cleans up', async () => {
  const { service, store, aWorkspace } = use()
  const run = await service.startRun(alice, aRun(aWorkspace(), [shell('echo started; sleep 300')]))

  const events = await follow(service, run.id, async (event) => {
    if (event.type !== 'command.output') return
    const claim = (await store.listClaims(['bound'])).find(({ runId }) => runId === run.id)
    process.kill((claim!.handle as { pid: number }).pid, 'SIGKILL')
  })

  const advice = `There is no checkpoint: one is made after each turn, and none had ended. What it changed in the folder itself is kept: see "agentweaver diff ${run.id}". Start the run again to go on.`
  expect(dataOf(events, 'run.failed')[0]).toMatchObject({
    code: 'sandbox_lost',
    message: expect.stringContaining(advice),
  })
  expect((await service.readDiff(alice, run.id)).problems).toBeDefined()
  expect(await store.listClaims(['bound', 'requested'])).toEqual([])
  const audit = await store.readAudit({ runId: run.id, limit: 100 })
  const records = audit.items.map(({ record }) => JSON.parse(record))
  expect(records.at(-1)).toMatchObject({ kind: 'outcome', outcome: 'unknown (the run ended first)' })
})

it('writes an audit intent before and an outcome after every action', async () => {
  const { service, store, aWorkspace } = use()
  const secretParameter = 'echo a-parameter-nobody-may-read'

  const run = await service.startRun(
    alice,
    aRun(aWorkspace(), [shell(secretParameter), tool('read_file', { path: '../x' })]),
  )
  await follow(service, run.id)

  const { items } = await store.readAudit({ runId: run.id, limit: 100 })
  const records = items.map(({ record }) => JSON.parse(record))
  expect(records.map(({ kind, tool: name, decision, outcome }) => [kind, name, decision ?? outcome])).toEqual(
    [
      ['intent', 'run_command', 'allow'],
      ['outcome', 'run_command', 'ok'],
      ['intent', 'read_file', 'deny'],
      ['outcome', 'read_file', 'policyDenied'],
    ],
  )
  expect(JSON.stringify(items)).not.toContain('a-parameter-nobody-may-read')
})

it('refuses a workspace that does not exist, is a link, is a file, or lies outside the roots', async () => {
  const { service, workspaces, folder, aWorkspace } = use()
  const inside = aWorkspace()
  symlinkSync(inside, join(workspaces, 'link'))
  symlinkSync('/etc', join(workspaces, 'etc'))
  writeFileSync(join(workspaces, 'file'), '')

  for (const path of [
    join(workspaces, 'none'),
    join(workspaces, 'link'),
    join(workspaces, 'etc', 'ssl'),
    join(workspaces, 'file'),
    folder,
    '/etc',
  ]) {
    await expect(service.startRun(alice, aRun(path, [])), path).rejects.toMatchObject({
      code: 'workspace_invalid',
    })
  }
  await expect(service.startRun(alice, aRun(inside, []))).resolves.toMatchObject({ state: 'queued' })
})

it('refuses a workspace that holds or lies in a folder with keys of the service or its user', async () => {
  const { service, folder, config, close } = await startService({ AGENTWEAVER_WORKSPACE_ROOTS: '/' })
  onTestFinished(close)

  const logins = join(config.home, '.config/agentweaver/logins')
  mkdirSync(logins, { recursive: true })
  const ofUser = [logins, join(config.home, '.config')]
  for (const path of [folder, config.stateDir, join(config.stateDir, 'keys'), '/', ...ofUser]) {
    const message = expect.stringContaining('a folder for keys')
    await expect(service.startRun(alice, aRun(path, [])), path).rejects.toMatchObject({
      code: 'workspace_invalid',
      message,
    })
  }
})

it('shows a run to its owner and to operators only', async () => {
  const { service, aWorkspace } = use()
  const run = await service.startRun(alice, aRun(aWorkspace(), []))

  await expect(service.readRun(bob, run.id)).rejects.toMatchObject({ code: 'not_found' })
  await expect(service.cancel(bob, run.id)).rejects.toMatchObject({ code: 'not_found' })
  await expect(service.readRun(operator, run.id)).resolves.toMatchObject({ id: run.id })
  expect((await service.listRuns(bob, { kind: 'agent', limit: 10 })).items).toEqual([])
  await follow(service, run.id)
})

it('queues a run of an owner without a free place, and starts it when another one ends', async () => {
  const { service, aWorkspace, close } = await startService({ AGENTWEAVER_MAX_RUNS_PER_OWNER: '1' })
  onTestFinished(close)
  const path = aWorkspace()
  const first = await service.startRun(alice, aRun(path, [{ kind: 'wait', ms: 600_000 }]))
  await until('it works', async () => (await service.readRun(alice, first.id)).state === 'running')
  const second = await service.startRun(alice, aRun(path, []))
  const third = await service.startRun(alice, aRun(path, []))

  const waiting = await service.readRun(alice, third.id)
  await service.cancel(alice, second.id)
  await service.cancel(alice, first.id)
  const events = await follow(service, third.id)

  expect(waiting).toMatchObject({ state: 'queued', queue: { position: 2 } })
  expect(waiting.queue?.estimatedStart).toBeUndefined()
  expect(await service.readRun(alice, second.id)).toMatchObject({ state: 'cancelled', generation: 0 })
  expect(dataOf(events, 'done')).toEqual([{ state: 'succeeded' }])
})

it('refuses a run only if the queue is full', async () => {
  const { service, aWorkspace, close } = await startService({
    AGENTWEAVER_MAX_RUNS: '1',
    AGENTWEAVER_MAX_QUEUED_PER_OWNER: '1',
    AGENTWEAVER_MAX_QUEUED: '2',
  })
  onTestFinished(close)
  const path = aWorkspace()
  const start = (caller: Caller) => service.startRun(caller, aRun(path, [{ kind: 'wait', ms: 600_000 }]))
  const first = await start(alice)
  await until(
    'it has left the queue',
    async () => (await service.readRun(alice, first.id)).state !== 'queued',
  )
  await start(alice)

  await expect(start(alice)).rejects.toMatchObject({ code: 'queue_full' })
  const other = await start(bob)
  await expect(start({ owner: 'carol', role: 'user' })).rejects.toMatchObject({ code: 'queue_full' })
  await service.cancel(bob, other.id)
  expect((await start({ owner: 'carol', role: 'user' })).state).toBe('queued')
})

it('fails a run that waits longer than the deadline of the queue', async () => {
  const { service, aWorkspace, close } = await startService({
    AGENTWEAVER_MAX_RUNS: '1',
    AGENTWEAVER_QUEUE_TIMEOUT_SECONDS: '1',
  })
  onTestFinished(close)
  const path = aWorkspace()
  const first = await service.startRun(alice, aRun(path, [{ kind: 'wait', ms: 600_000 }]))
  await until(
    'it has left the queue',
    async () => (await service.readRun(alice, first.id)).state !== 'queued',
  )
  const { id } = await service.startRun(alice, aRun(path, []))

  expect(dataOf(await follow(service, id), 'run.failed')).toMatchObject([{ code: 'capacity_unavailable' }])
})

it('gives a sandbox without an agent: commands, files, and an end', async () => {
  const { service } = use()
  const sandbox = await service.createSandbox(alice, CreateSandbox.parse({}))

  const write = await service.file(alice, sandbox.id, {
    operation: { op: 'write', path: 'in/x.txt', create: 'allowed', parents: true },
    payload: Buffer.from('hello'),
  })
  const { commandId } = await service.startCommand(
    alice,
    sandbox.id,
    StartCommand.parse({ command: 'cat in/x.txt; cat', stdin: Buffer.from(' you').toString('base64') }),
  )
  await until(
    'the command has ended',
    async () =>
      dataOf(await service.readEvents(alice, sandbox.id, { after: 0, limit: 100 }), 'command.exited').length >
      0,
  )
  const refused = await service.file(alice, sandbox.id, {
    operation: { op: 'read', path: '../../etc/passwd' },
  })
  const session = await service.file(alice, sandbox.id, { operation: { op: 'read', path: '../session' } })
  const encoded = await service.file(alice, sandbox.id, { operation: { op: 'read', path: '%2e%2e/session' } })
  await service.destroySandbox(alice, sandbox.id)
  const events = await follow(service, sandbox.id)

  expect(write.result.ok).toBe(true)
  expect(
    dataOf(events, 'command.output')
      .map(({ chunk }) => chunk)
      .join(''),
  ).toBe('hello you')
  expect(dataOf(events, 'command.exited')[0]).toMatchObject({ commandId, result: { exitCode: 0 } })
  for (const { result } of [refused, session])
    expect(result).toMatchObject({ ok: false, code: 'path_outside' })
  expect(encoded.result).toMatchObject({ ok: false, code: 'not_found' })
  expect(dataOf(events, 'done')).toEqual([{ state: 'cancelled' }])
})

it('rejects a command that asks for the network if the run has no network', async () => {
  const { service } = use()
  const sandbox = await service.createSandbox(alice, CreateSandbox.parse({}))

  const asked = service.startCommand(
    alice,
    sandbox.id,
    StartCommand.parse({ command: 'true', network: true }),
  )

  await expect(asked).rejects.toMatchObject({ code: 'policy_denied' })
})

it('releases its sandbox if its start cannot be committed', async () => {
  const { service, store, aWorkspace } = use()
  const commit = store.transaction.bind(store)
  const failing = (tx: Transaction): Transaction =>
    new Proxy(tx, {
      get(target, key: keyof Transaction) {
        if (key !== 'appendEvents') return target[key].bind(target)
        return async (...[runId, events]: Parameters<Transaction['appendEvents']>) => {
          if (events.some(({ event }) => event.type === 'run.started')) throw new Error('the disk is full')
          return target.appendEvents(runId, events)
        }
      },
    })
  const commits = vi
    .spyOn(store, 'transaction')
    .mockImplementation((work) => commit((tx) => work(failing(tx))))
  onTestFinished(() => commits.mockRestore())

  const run = await service.startRun(alice, aRun(aWorkspace(), [shell('echo never')]))
  const events = await follow(service, run.id)

  expect(typesOf(events)).not.toContain('run.started')
  expect(dataOf(events, 'run.failed')).toMatchObject([{ code: 'internal' }])
  const claim = (await store.listClaims(['released'])).find(({ runId }) => runId === run.id)
  const { pid, startTime } = claim!.handle as { pid: number; startTime: string }
  await until('its process, which was killed, is gone', () => startTimeOf(pid) !== startTime)
})
