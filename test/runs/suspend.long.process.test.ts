import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Run } from '../../contracts/api.ts'
import { until } from '../helpers/until.ts'
import { alice, aRun, dataOf, follow, shell, startService, tool, typesOf } from './service-rig.ts'

/** The shell judge asks a person about a command that deletes a folder. */
const RISKY = 'mkdir build && rm -rf build && echo removed >> log.txt'
const STEPS = [
  shell('echo before >> log.txt'),
  shell(RISKY),
  shell('echo after >> log.txt'),
  tool('report_outcome', { outcome: 'succeeded', summary: 'did it' }),
]

async function aService(env: Record<string, string> = {}) {
  const started = await startService(env)
  onTestFinished(() => started.close())
  return started
}

const isIn = async (
  service: Awaited<ReturnType<typeof aService>>['service'],
  id: string,
  state: Run['state'],
) => (await service.readRun(alice, id)).state === state

describe('a run that waits for an approval', () => {
  it.each(['approved', 'denied'] as const)(
    'gives its sandbox back, and continues in another one when it is %s',
    async (outcome) => {
      const { service, store, aWorkspace } = await aService({ AGENTWEAVER_SUSPEND_AFTER_SECONDS: '1' })
      const path = aWorkspace()
      const { id } = await service.startRun(alice, aRun(path, STEPS))
      await until('the run is suspended', () => isIn(service, id, 'suspended'))
      const suspended = await service.readRun(alice, id)
      await until('its sandbox is given back', async () => {
        const held = await store.listClaims(['requested', 'bound'])
        return held.every(({ runId }) => runId !== id)
      })
      const [approval] = await store.listApprovals(id)

      const scope = { requestId: approval?.requestId ?? '', scope: 'once' } as const
      await service.decideShell(
        alice,
        id,
        outcome === 'approved'
          ? { outcome, ...scope }
          : { outcome, requestId: scope.requestId, reason: 'no' },
      )
      const events = await follow(service, id)

      expect(suspended.waiting?.for).toBe('approval')
      expect(dataOf(events, 'run.suspended')).toHaveLength(1)
      expect(dataOf(events, 'run.resumed')).toEqual([{ generation: 2 }])
      expect(dataOf(events, 'turn.started')).toHaveLength(1)
      const lines = readFileSync(join(path, 'log.txt'), 'utf8').trim().split('\n')
      expect(lines).toEqual(outcome === 'approved' ? ['before', 'removed', 'after'] : ['before', 'after'])
      const calls = dataOf(events, 'tool.call').map(({ callId }) => callId)
      expect(new Set(calls).size).toBe(calls.length)
      expect((await service.readRun(alice, id)).state).toBe('succeeded')
    },
  )

  it('is suspended on request, and continues on request while it still waits', async () => {
    const { service, store, aWorkspace } = await aService()
    const { id } = await service.startRun(alice, aRun(aWorkspace(), STEPS))
    await until('the run waits', () => isIn(service, id, 'waiting'))

    expect(await service.suspend(alice, id)).toMatchObject({
      state: 'suspended',
      waiting: { for: 'approval' },
    })
    await service.resume(alice, id)
    await until('the run waits in its second sandbox', async () => {
      const run = await service.readRun(alice, id)
      return run.state === 'waiting' && run.generation === 2
    })
    const approvals = await store.listApprovals(id)
    expect(approvals).toHaveLength(1)
    await service.decideShell(alice, id, {
      outcome: 'approved',
      requestId: approvals[0]?.requestId,
      scope: 'once',
    })
    const events = await follow(service, id)

    expect(typesOf(events).filter((type) => type === 'shell.approval_required')).toHaveLength(1)
    expect((await service.readRun(alice, id)).state).toBe('succeeded')
  })

  it('is refused a suspension while its agent works', async () => {
    const { service, aWorkspace } = await aService()
    const { id } = await service.startRun(alice, aRun(aWorkspace(), [{ kind: 'wait', ms: 600_000 }]))
    await until('the run works', () => isIn(service, id, 'running'))

    await expect(service.suspend(alice, id)).rejects.toMatchObject({ code: 'conflict' })
    await service.cancel(alice, id)
  })

  it('can be cancelled without a sandbox', async () => {
    const { service, aWorkspace } = await aService()
    const { id } = await service.startRun(alice, aRun(aWorkspace(), STEPS))
    await until('the run waits', () => isIn(service, id, 'waiting'))
    await service.suspend(alice, id)

    expect((await service.cancel(alice, id)).state).toBe('cancelled')
  })

  it('continues when its approval expires', async () => {
    const { service, aWorkspace } = await aService({ AGENTWEAVER_APPROVAL_TTL_SECONDS: '8' })
    const path = aWorkspace()
    const { id } = await service.startRun(alice, aRun(path, STEPS))
    await until('the run waits', () => isIn(service, id, 'waiting'))
    await service.suspend(alice, id)
    const events = await follow(service, id)

    expect(dataOf(events, 'shell.expired')).toHaveLength(1)
    expect(readFileSync(join(path, 'log.txt'), 'utf8')).toBe('before\nafter\n')
  })
})

describe('during and right after a suspension', () => {
  /** Acts as soon as the run is in a state, while its sandbox is being given back. */
  async function actIn(
    state: Run['state'],
    act: (started: Awaited<ReturnType<typeof aService>>, id: string) => Promise<unknown>,
  ) {
    const started = await aService()
    const { service, aWorkspace } = started
    const { id } = await service.startRun(alice, aRun(aWorkspace(), STEPS))
    await until('the run waits', () => isIn(service, id, 'waiting'))
    const suspending = service.suspend(alice, id).catch(() => undefined)
    await until(`the run is ${state}`, async () => {
      const now = (await service.readRun(alice, id)).state
      return now === state || now === 'suspended'
    })
    await act(started, id)
    await suspending
    return { ...started, id }
  }
  const approve = async ({ service, store }: Awaited<ReturnType<typeof aService>>, id: string) => {
    const [approval] = await store.listApprovals(id)
    await service.decideShell(alice, id, {
      outcome: 'approved',
      requestId: approval?.requestId,
      scope: 'once',
    })
  }

  it.each(['suspending', 'suspended'] as const)(
    'a decision in the state %s takes effect once',
    async (state) => {
      const { service, id } = await actIn(state, approve)
      const events = await follow(service, id)

      expect(dataOf(events, 'done')).toEqual([{ state: 'succeeded' }])
      expect(dataOf(events, 'run.failed')).toEqual([])
      expect(dataOf(events, 'tool.result')).toHaveLength(STEPS.length)
    },
  )

  it.each(['suspending', 'suspended'] as const)(
    'a request to resume in the state %s continues the run',
    async (state) => {
      const { service, store, id, ...more } = await actIn(state, ({ service: at }, run) =>
        at.resume(alice, run),
      )
      await until('the run waits again', async () => {
        const run = await service.readRun(alice, id)
        return run.state === 'waiting' && run.generation === 2
      })
      await approve({ service, store, ...more }, id)

      expect(dataOf(await follow(service, id), 'done')).toEqual([{ state: 'succeeded' }])
    },
  )

  it.each(['suspending', 'suspended'] as const)(
    'a cancellation in the state %s ends the run',
    async (state) => {
      const { service, id } = await actIn(state, ({ service: at }, run) => at.cancel(alice, run))
      const events = await follow(service, id)

      expect(dataOf(events, 'done')).toEqual([{ state: 'cancelled' }])
    },
  )
})

describe('with all places of the service taken', () => {
  /** A suspended run, and another one in the only place. */
  async function twoRuns() {
    const { service, store, aWorkspace } = await aService({ AGENTWEAVER_MAX_RUNS: '1' })
    const { id } = await service.startRun(alice, aRun(aWorkspace(), STEPS))
    await until('the run waits', () => isIn(service, id, 'waiting'))
    await service.suspend(alice, id)
    const other = await service.startRun(alice, aRun(aWorkspace('other'), [{ kind: 'wait', ms: 600_000 }]))
    await until('the other run works', () => isIn(service, other.id, 'running'))
    const [approval] = await store.listApprovals(id)
    await service.decideShell(alice, id, {
      outcome: 'approved',
      requestId: approval?.requestId,
      scope: 'once',
    })
    return { service, id, other: other.id }
  }

  it('a run that continues waits for a place', async () => {
    const { service, id, other } = await twoRuns()
    expect(await service.readRun(alice, id)).toMatchObject({ state: 'queued', generation: 1 })

    await service.cancel(alice, other)

    expect(dataOf(await follow(service, id), 'done')).toEqual([{ state: 'succeeded' }])
  })

  it('a run that waits for a place can be cancelled', async () => {
    const { service, id, other } = await twoRuns()

    expect((await service.cancel(alice, id)).state).toBe('cancelled')
    expect((await service.readRun(alice, other)).state).toBe('running')
    await service.cancel(alice, other)
  })
})

it('starts no further run of an owner who has the permitted number of suspended runs', async () => {
  const { service, aWorkspace } = await aService({ AGENTWEAVER_MAX_SUSPENDED_PER_OWNER: '1' })
  const { id } = await service.startRun(alice, aRun(aWorkspace(), STEPS))
  await until('the run waits', () => isIn(service, id, 'waiting'))
  await service.suspend(alice, id)

  await expect(service.startRun(alice, aRun(aWorkspace(), STEPS))).rejects.toMatchObject({
    code: 'too_many_runs',
    message: expect.stringContaining('resume or cancel'),
  })
  await service.cancel(alice, id)
  const next = await service.startRun(alice, aRun(aWorkspace(), STEPS))
  await service.cancel(alice, next.id)
})

it('ends after the retention, as its last turn did if it only waits for another one', async () => {
  const { service, aWorkspace } = await aService({ AGENTWEAVER_SUSPENDED_RETENTION_SECONDS: '1' })
  const asks = await service.startRun(alice, aRun(aWorkspace(), STEPS))
  const plan = { turns: [[tool('report_outcome', { outcome: 'succeeded', summary: 'first part' })]] }
  const talks = await service.startRun(
    alice,
    aRun(aWorkspace('talks'), [], { interactive: true, agent: { kind: 'scripted', plan } }),
  )
  for (const { id } of [asks, talks]) {
    await until('the run waits', () => isIn(service, id, 'waiting'))
    await service.suspend(alice, id)
  }
  for (const { id } of [asks, talks]) await follow(service, id)

  expect(await service.readRun(alice, asks.id)).toMatchObject({
    state: 'failed',
    failure: { code: 'deadline_exceeded' },
  })
  expect(await service.readRun(alice, talks.id)).toMatchObject({
    state: 'succeeded',
    outcome: { summary: 'first part' },
  })
})

it('waits as before if it cannot be saved', async () => {
  const { service, store, config, aWorkspace } = await aService()
  const { id } = await service.startRun(alice, aRun(aWorkspace(), STEPS))
  await until('the run waits', () => isIn(service, id, 'waiting'))
  const database = new DatabaseSync(config.store.kind === 'sqlite' ? config.store.file : '')
  database.exec(
    "create trigger full before insert on contents begin select raise(abort, 'no space left'); end",
  )

  await expect(service.suspend(alice, id)).rejects.toThrow()
  database.exec('drop trigger full')
  database.close()
  const [approval] = await store.listApprovals(id)
  await service.decideShell(alice, id, { outcome: 'approved', requestId: approval?.requestId, scope: 'once' })
  const events = await follow(service, id)

  expect(dataOf(events, 'done')).toEqual([{ state: 'succeeded' }])
  expect(dataOf(events, 'run.resumed')).toEqual([])
})

it('continues an interactive run with its next turn after a suspension', async () => {
  const { service, aWorkspace } = await aService()
  const plan = { turns: [[{ kind: 'say' as const, text: 'one' }], [{ kind: 'say' as const, text: 'two' }]] }
  const run = aRun(aWorkspace(), [], { interactive: true, agent: { kind: 'scripted', plan } })
  const { id } = await service.startRun(alice, run)
  await until('the run waits', () => isIn(service, id, 'waiting'))
  await service.suspend(alice, id)

  await service.startTurn(alice, id, { prompt: 'go on', final: true })
  const events = await follow(service, id)

  expect(dataOf(events, 'agent.message').map(({ text }) => text)).toEqual(['one', 'two'])
})

it('keeps an uploaded workspace over a suspension', async () => {
  const { service, store } = await aService()
  const run = aRun('/unused', STEPS, { workspace: { kind: 'empty' } })
  const { id } = await service.startRun(alice, run)
  await until('the run waits', () => isIn(service, id, 'waiting'))
  await service.suspend(alice, id)
  const [approval] = await store.listApprovals(id)
  await service.decideShell(alice, id, { outcome: 'approved', requestId: approval?.requestId, scope: 'once' })
  await follow(service, id)

  const archive = await service.downloadWorkspace(alice, id, AbortSignal.timeout(600_000))
  expect(Buffer.concat(await Array.fromAsync(archive)).toString()).toContain('before\nremoved\nafter\n')
})

describe('a run whose sandbox is lost', () => {
  it('continues from its checkpoint with a preface for the agent', async () => {
    const { service, store, aWorkspace } = await aService()
    const path = aWorkspace()
    writeFileSync(join(path, 'log.txt'), '')
    const steps = [
      shell('echo did >> log.txt'),
      { kind: 'wait' as const, ms: 2_000 },
      tool('report_outcome', { outcome: 'succeeded' }),
    ]
    const { id } = await service.startRun(alice, aRun(path, steps))
    await until('the agent acted', () => readFileSync(join(path, 'log.txt'), 'utf8') !== '')
    const [claim] = await store.listClaims(['bound'])
    const { pid } = claim!.handle as { pid: number }
    process.kill(-pid, 'SIGKILL')
    const events = await follow(service, id)

    expect(dataOf(events, 'run.interrupted')).toMatchObject([{ code: 'sandbox_lost' }])
    expect(dataOf(events, 'run.resumed')).toEqual([{ generation: 2 }])
    const [turn] = await store.transaction((tx) => tx.listTurns(id))
    expect(turn?.sentPrompt).toContain('echo did >> log.txt')
    expect((await service.readRun(alice, id)).state).toBe('succeeded')
  })
})
