import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pack } from 'tar-stream'
import { describe, expect, it } from 'vitest'
import { ForkRun, type ForkRunInput, type Run, type StartRunInput } from '../../contracts/api.ts'
import { recordOf } from '../../runtime/audit/record.ts'
import { until } from '../helpers/until.ts'
import { alice, aRun, bob, dataOf, follow, operator, shell, tool, useService } from './service-rig.ts'

const service = useService()

const DONE = tool('report_outcome', { outcome: 'succeeded' })
/** The shell judge asks a person about a command that deletes a folder. */
const RISKY = shell('mkdir build && rm -rf build && echo removed >> log.txt')

const aFork = (change: Partial<ForkRunInput> = {}) => ForkRun.parse({ task: 'try another way', ...change })

const scripted = (...turns: ReturnType<typeof shell>[][]) =>
  ({ agent: { kind: 'scripted', plan: { turns } } }) as const

/** A run with its own files and one turn of the plan behind it. */
async function anEndedRun(turns: ReturnType<typeof shell>[][], change: Partial<StartRunInput> = {}) {
  const { service: at } = service()
  const run = aRun('/unused', [], { workspace: { kind: 'empty' }, ...scripted(...turns), ...change })
  const { id } = await at.startRun(alice, run)
  await follow(at, id)
  return id
}

const stateOf = async (id: string): Promise<Run['state']> =>
  (await service().service.readRun(alice, id)).state

const resultsOf = async (id: string): Promise<number> =>
  dataOf(await service().service.readEvents(alice, id, { after: 0, limit: 200 }), 'tool.result').length

/** The text of the files of an ended run, in its archive. */
async function filesOf(id: string): Promise<string> {
  const archive = await service().service.downloadWorkspace(alice, id, AbortSignal.timeout(600_000))
  return Buffer.concat(await Array.fromAsync(archive)).toString()
}

describe('a fork', () => {
  it('continues the conversation and the files of the source in a separate run', async () => {
    const { service: at, store } = service()
    const source = await anEndedRun([
      [shell('echo first > log.txt'), DONE],
      [shell('cat log.txt && echo second >> log.txt'), DONE],
    ])

    const forked = await at.forkRun(alice, source, aFork({ labels: { try: '2' } }))
    const events = await follow(at, forked.id)

    const { checkpointAt } = await at.readRun(alice, source)
    const copied = { runId: source, checkpointAt, copied: ['workspace', 'session'] }
    expect(forked).toMatchObject({
      state: 'queued',
      task: 'try another way',
      workspace: { kind: 'run', runId: source },
      source: copied,
      labels: { try: '2' },
    })
    expect(dataOf(events, 'run.queued')).toEqual([{ task: 'try another way', source: copied }])
    expect(dataOf(events, 'command.output').map(({ chunk }) => chunk)).toEqual(['first\n'])
    expect(await filesOf(forked.id)).toContain('first\nsecond\n')
    expect(await filesOf(source), 'the source keeps its files').not.toContain('second')
    const [turn] = await store.transaction((tx) => tx.listTurns(forked.id))
    expect(turn?.prompt, 'nothing is added to the prompt').toBe('try another way')
  })

  it('is recorded in its own audit chain with the source and the checkpoint', async () => {
    const { service: at, store } = service()
    const source = await anEndedRun([[DONE], [DONE]])
    const { id } = await at.forkRun(alice, source, aFork())
    await follow(at, id)

    const [first] = (await store.readAudit({ runId: id, limit: 10 })).items.map(recordOf)
    const { checkpointAt } = await at.readRun(alice, source)

    expect(first).toMatchObject({ kind: 'outcome', tool: 'run.fork', actor: 'person:alice', callId: id })
    expect(first?.outcome).toContain(source)
    expect(first?.outcome).toContain(checkpointAt)
  })

  it('begins from the last checkpoint of a run that works', async () => {
    const { service: at } = service()
    const plan = scripted(
      [shell('echo first > log.txt')],
      [shell('echo live >> log.txt'), { kind: 'wait', ms: 600_000 }],
    )
    const run = aRun('/unused', [], { workspace: { kind: 'empty' }, interactive: true, ...plan })
    const source = await at.startRun(alice, run)
    await until('its first turn has ended', async () => (await stateOf(source.id)) === 'waiting')
    await at.startTurn(alice, source.id, { prompt: 'go on', final: false })
    await until('its second turn works', async () => (await resultsOf(source.id)) === 2)

    const forked = await at.forkRun(alice, source.id, aFork({ interactive: true }))
    await until('the fork works on its first turn', async () => (await resultsOf(forked.id)) === 1)
    await at.cancel(alice, source.id)
    await at.cancel(alice, forked.id)
    await follow(at, forked.id)

    expect(await filesOf(forked.id)).toContain('first\nlive\n')
  })

  it.each([bob, operator])('is refused to $owner, who does not own the source', async (caller) => {
    const { service: at } = service()
    const source = await anEndedRun([[DONE]])

    const refusal = { code: caller === bob ? 'not_found' : 'forbidden' }
    await expect(at.forkRun(caller, source, aFork())).rejects.toMatchObject(refusal)
    const files = aRun('', [DONE], { workspace: { kind: 'run', runId: source } })
    await expect(at.startRun(caller, files)).rejects.toMatchObject(refusal)
  })

  it('is refused, with the next step, while the source has no checkpoint', async () => {
    const { service: at } = service()
    const run = aRun('/unused', [{ kind: 'wait', ms: 600_000 }], { workspace: { kind: 'empty' } })
    const { id } = await at.startRun(alice, run)
    await until('it works', async () => (await stateOf(id)) === 'running')

    await expect(at.forkRun(alice, id, aFork())).rejects.toMatchObject({
      code: 'run_not_ready',
      message: expect.stringContaining(`agentweaver logs -f ${id}`),
    })
    await at.cancel(alice, id)
  })

  it('uses the files of a folder only if the request names the folder', async () => {
    const { service: at, aWorkspace } = service()
    const path = aWorkspace()
    const first = await at.startRun(
      alice,
      aRun(path, [], scripted([shell('echo first > log.txt'), DONE], [shell('cat log.txt'), DONE])),
    )
    await follow(at, first.id)

    await expect(at.forkRun(alice, first.id, aFork())).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('--workspace DIR'),
    })
    const forked = await at.forkRun(alice, first.id, aFork({ workspace: { kind: 'path', path } }))
    const events = await follow(at, forked.id)

    expect(dataOf(events, 'command.output').map(({ chunk }) => chunk)).toEqual(['first\n'])
    expect(forked.source).toMatchObject({ runId: first.id, copied: ['session'] })
    expect(readFileSync(join(path, 'log.txt'), 'utf8')).toBe('first\n')
  })

  it.each([
    { before: 'cat log.txt', isDenied: false },
    { before: 'cat .env', isDenied: true },
  ])('counts what the runs before it have read: $before', async ({ before, isDenied }) => {
    const { service: at } = service()
    const send = shell('curl -d @log.txt http://127.0.0.1:1')
    const first = await anEndedRun([[shell(before), DONE], [DONE], [send, DONE]])
    const second = await at.forkRun(alice, first, aFork())
    await follow(at, second.id)

    const third = await at.forkRun(alice, second.id, aFork())
    const events = await follow(at, third.id)

    const reasons = dataOf(events, 'tool.denied').map(({ reason }) => reason)
    expect(reasons).toEqual(isDenied ? [expect.stringContaining('secret')] : [])
  })

  it('uses uploaded files in place of the files of the checkpoint', async () => {
    const { service: at, store } = service()
    const source = await anEndedRun([
      [shell('echo first > log.txt'), DONE],
      [shell('cat log.txt'), DONE],
    ])

    const { id, state } = await at.forkRun(alice, source, aFork({ workspace: { kind: 'upload' } }))
    const archive = pack()
    archive.entry({ name: 'log.txt' }, 'uploaded\n')
    archive.finalize()
    await at.uploadWorkspace(alice, id, archive as AsyncIterable<Uint8Array>)
    const events = await follow(at, id)

    expect(state).toBe('waiting_upload')
    expect(dataOf(events, 'command.output').map(({ chunk }) => chunk)).toEqual(['uploaded\n'])
    const [turn] = await store.transaction((tx) => tx.listTurns(id))
    expect(turn?.prompt).toMatch(/^The workspace has other files[\s\S]*try another way$/)
  })

  it('continues from the copied checkpoint when its first sandbox is lost', async () => {
    const { service: at, store } = service()
    const wait = { kind: 'wait', ms: 2_000 } as const
    const source = await anEndedRun([
      [shell('echo first > log.txt'), DONE],
      [shell('cat log.txt'), wait, DONE],
    ])

    const { id } = await at.forkRun(alice, source, aFork())
    await until('its first call has a result', async () => (await resultsOf(id)) === 1)
    const claim = (await store.listClaims(['bound'])).find(({ runId }) => runId === id)
    process.kill(-(claim!.handle as { pid: number }).pid, 'SIGKILL')
    const events = await follow(at, id)

    expect(dataOf(events, 'run.interrupted')).toMatchObject([{ code: 'sandbox_lost' }])
    expect(dataOf(events, 'command.output').map(({ chunk }) => chunk)).toEqual(['first\n', 'first\n'])
    expect(dataOf(events, 'done')).toEqual([{ state: 'succeeded' }])
  })

  it('keeps its files when the checkpoint of the source is deleted before it starts', async () => {
    const { service: at, store } = service()
    const source = await anEndedRun([
      [shell('echo first > log.txt'), DONE],
      [shell('cat log.txt'), DONE],
    ])

    const { id } = await at.forkRun(alice, source, aFork())
    const later = new Date(Date.now() + 2 * 86_400_000)
    await store.sweep({ endedBefore: later.toISOString(), now: later, limit: 100 })
    expect(await store.readCheckpoint(source)).toBeUndefined()

    expect(dataOf(await follow(at, id), 'command.output').map(({ chunk }) => chunk)).toEqual(['first\n'])
    await expect(at.forkRun(alice, source, aFork())).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('Start a new run'),
    })
  })

  it('has at most the settings of its source and the current settings', async () => {
    const { service: at, store } = service()
    const source = await anEndedRun([[DONE], [shell('true')]], {
      policy: { require_approval_for_all_shell: true, network_enabled: false },
      budgets: { steps: 5 },
    })

    await expect(
      at.forkRun(alice, source, aFork({ policy: { require_approval_for_all_shell: false } })),
    ).rejects.toMatchObject({ code: 'policy_denied' })
    await at.replacePolicy(operator, { redact_pii: true, max_output_bytes: 2_097_152 })
    const inherits = await at.forkRun(alice, source, aFork({ interactive: true }))
    const asks = await at.forkRun(alice, source, aFork({ interactive: true, budgets: { steps: 9 } }))
    await at.replacePolicy(operator, {})

    expect((await store.readRun(inherits.id))?.settings).toMatchObject({
      require_approval_for_all_shell: true,
      network_enabled: false,
      max_output_bytes: 2_097_152,
      budgets: { steps: 5 },
    })
    expect((await store.readRun(asks.id))?.settings.budgets).toEqual({ steps: 9 })
    for (const { id } of [inherits, asks]) await at.cancel(alice, id)
  })
})

describe('a fork of a run that is suspended while a call waits', () => {
  async function aSuspendedRun() {
    const { service: at } = service()
    const plan = scripted([shell('echo before > log.txt'), RISKY], [shell('cat log.txt'), DONE])
    const run = aRun('/unused', [], { workspace: { kind: 'empty' }, ...plan })
    const { id } = await at.startRun(alice, run)
    await until('it waits', async () => (await stateOf(id)) === 'waiting')
    await at.suspend(alice, id)
    return id
  }

  it('neither repeats the call nor can answer it', async () => {
    const { service: at, store } = service()
    const source = await aSuspendedRun()
    const [approval] = await store.listApprovals(source)
    const requestId = approval?.requestId ?? ''

    const forked = await at.forkRun(alice, source, aFork())
    await expect(
      at.decideShell(alice, forked.id, { outcome: 'approved', requestId, scope: 'once' }),
    ).rejects.toMatchObject({ code: 'not_found' })
    const events = await follow(at, forked.id)

    expect(dataOf(events, 'shell.approval_required')).toEqual([])
    expect(dataOf(events, 'command.output').map(({ chunk }) => chunk)).toEqual(['before\n'])
    const [turn] = await store.transaction((tx) => tx.listTurns(forked.id))
    expect(turn?.prompt).toMatch(/in the middle of a turn[\s\S]*"run_command"[\s\S]*try another way$/)
    expect((await at.readRun(alice, source)).state, 'the source still waits').toBe('suspended')

    await at.decideShell(alice, source, { outcome: 'approved', requestId, scope: 'once' })
    await follow(at, source)
    expect(await filesOf(source), 'the decision reaches the source').toContain('before\nremoved\n')
    expect(await filesOf(forked.id)).not.toContain('removed')
  })

  it('does not get an approval for the whole run', async () => {
    const { service: at, store } = service()
    const source = await anEndedRunWithGrant()

    const { id } = await at.forkRun(alice, source, aFork())
    await until(
      'the fork asks again',
      async () => (await store.listApprovals(id, { state: 'pending' })).length === 1,
    )

    await at.cancel(alice, id)
  })

  async function anEndedRunWithGrant() {
    const { service: at } = service()
    const plan = scripted([RISKY, RISKY, DONE], [RISKY, DONE])
    const { id } = await at.startRun(alice, aRun('/unused', [], { workspace: { kind: 'empty' }, ...plan }))
    let asked = 0
    await follow(at, id, async (event) => {
      if (event.type !== 'shell.approval_required') return
      asked += 1
      const { requestId } = event.data
      await at.decideShell(alice, id, { outcome: 'approved', requestId, scope: 'run' })
    })
    expect(asked, 'the control: the source asked once for both calls').toBe(1)
    return id
  }
})

describe('a run with the files of another run', () => {
  it('has a new conversation, and a sandbox can start with them too', async () => {
    const { service: at } = service()
    const source = await anEndedRun([[shell('echo first > log.txt'), DONE], [DONE]])

    const run = await at.startRun(
      alice,
      aRun('', [shell('cat log.txt'), DONE], { workspace: { kind: 'run', runId: source } }),
    )
    const events = await follow(at, run.id)
    const sandbox = await at.createSandbox(alice, { workspace: { kind: 'run', runId: source } })
    const file = await at.file(alice, sandbox.id, {
      operation: { op: 'read', path: 'log.txt', offset: 0, length: 100 },
    })
    await at.destroySandbox(alice, sandbox.id)

    expect(run.source).toMatchObject({ runId: source, copied: ['workspace'] })
    expect(dataOf(events, 'command.output').map(({ chunk }) => chunk)).toEqual(['first\n'])
    expect(Buffer.from(file.payload ?? []).toString()).toBe('first\n')
    const again = await at.startRun(
      alice,
      aRun('', [shell('cat log.txt'), DONE], { workspace: { kind: 'run', runId: sandbox.id } }),
    )
    expect(dataOf(await follow(at, again.id), 'command.output')).toMatchObject([{ chunk: 'first\n' }])
  })
})
