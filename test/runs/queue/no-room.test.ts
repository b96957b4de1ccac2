import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import {
  CAPACITY_WAIT,
  isLack,
  lackIn,
  WaitsForRoom,
  waitForRoom,
} from '../../../runtime/api/runs/queue/no-room.ts'
import { SandboxError } from '../../../runtime/kit/errors.ts'
import { silentLog } from '../../../runtime/kit/log.ts'
import { openStore } from '../../../runtime/store/open-store.ts'
import { processorMs } from '../../helpers/processor-time.ts'
import { aRun } from '../../store/rows.ts'

const FULL = new SandboxError(
  'agent_quota_exceeded',
  'exceeded quota: q, requested: pods=1, used: pods=5, limited: pods=5',
)

/** A run whose launches find no room, one after the other. */
async function aRunWithoutRoom() {
  const folder = mkdtempSync(join(tmpdir(), 'aw-room-'))
  const store = await openStore({ kind: 'sqlite', file: join(folder, 'store.db') }, { log: silentLog })
  onTestFinished(async () => {
    await store.close()
    rmSync(folder, { recursive: true })
  })
  const { id } = await store.transaction((tx) => tx.insertRun(aRun({ id: 'run_1' })))
  const pick = () =>
    store.transaction(async (tx) => {
      const { state } = (await tx.readRun(id)) ?? {}
      if (state !== 'starting')
        await tx.changeRunState(id, { from: state ?? 'queued', to: 'starting' }, { holder: 'me' })
    })
  return {
    store,
    fail: async () => {
      await pick()
      const run = await store.readRun(id)
      if (!run) throw new Error('the run is not there')
      return waitForRoom({ store, clock: () => new Date() }, run, FULL)
    },
  }
}

describe('a run that found no room', () => {
  it('waits in the queue without a driver, and reports the missing resource', async () => {
    const { store, fail } = await aRunWithoutRoom()

    expect(await fail()).toBeInstanceOf(WaitsForRoom)

    const run = await store.readRun('run_1')
    expect(run?.state).toBe('pending_capacity')
    expect(run?.holder).toBeUndefined()
    expect((await store.readEvents('run_1', 0, 9)).map(({ event }) => event)).toMatchObject([
      {
        type: 'subtask.pending_capacity',
        data: { resource: 'pods', requested: 1, available: 0, attempt: 1 },
      },
    ])
  })

  it('ends if its end is decided, because nothing would end it in the queue', async () => {
    const { store, fail } = await aRunWithoutRoom()
    await store.transaction((tx) => tx.changeRun('run_1', { ending: { state: 'cancelled', by: 'ada' } }))

    await expect(fail()).rejects.toMatchObject({ code: 'run_ended' })

    expect(await store.readRun('run_1')).toMatchObject({ state: 'starting', holder: 'me' })
  })

  it('does not compete until its pause is over, even if there seems to be room', async () => {
    const { store, fail } = await aRunWithoutRoom()
    await fail()

    const lanes = [{ lane: 'agent', hasRoom: true }] as const
    expect(await store.transaction((tx) => tx.listQueueHeads({ lanes, limit: 9 }))).toEqual([])
  })

  it('fails after ten reported waits', async () => {
    const { store, fail } = await aRunWithoutRoom()
    for (let attempt = 0; attempt < CAPACITY_WAIT.attempts; attempt += 1) await fail()

    await expect(fail()).rejects.toMatchObject({
      code: 'capacity_unavailable',
      message: expect.stringContaining('exceeded quota'),
    })

    const attempts = (await store.readEvents('run_1', 0, 100)).flatMap(({ event }) =>
      event.type === 'subtask.pending_capacity' ? [event.data.attempt] : [],
    )
    expect(attempts).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
  })

  it('keeps waiting after ten attempts if it has a checkpoint', async () => {
    const { store, fail } = await aRunWithoutRoom()
    await store.transaction((tx) => tx.changeRun('run_1', { checkpoint: { sequence: 1 } }))

    for (let attempt = 0; attempt <= CAPACITY_WAIT.attempts; attempt += 1)
      expect(await fail()).toBeInstanceOf(WaitsForRoom)
  })

  it('is left to the process that has taken it over', async () => {
    const { store, fail } = await aRunWithoutRoom()
    await fail()
    const stale = await store.readRun('run_1')
    if (!stale) throw new Error('the run is not there')

    const late = waitForRoom({ store, clock: () => new Date() }, { ...stale, holder: 'former' }, FULL)

    await expect(late).rejects.toMatchObject({ code: 'conflict' })
  })
})

it.each(['agent_pod_reconciler_error', 'identity_mismatch', 'sandbox_lost', 'conflict'] as const)(
  'does not take %s for missing room',
  (code) => {
    expect(isLack(new SandboxError(code, 'x'))).toBe(false)
  },
)

describe('the resource that a quota error reports as missing', () => {
  it.each([
    [
      'pods "x" is forbidden: exceeded quota: none, requested: pods=1, used: pods=2, limited: pods=2',
      { resource: 'pods', requested: 1, available: 0 },
    ],
    [
      'exceeded quota: q, requested: limits.memory=1Gi,pods=1, used: limits.memory=3Gi,pods=5, limited: limits.memory=3584Mi,pods=5',
      { resource: 'limits.memory', requested: 2 ** 30, available: 2 ** 29 },
    ],
    [
      'exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=2, limited: requests.cpu=2250m',
      { resource: 'requests.cpu', requested: 0.5, available: 0.25 },
    ],
    [
      `exceeded quota: q, requested: pods=${'9'.repeat(400)}, used: pods=1, limited: pods=1`,
      { resource: 'sandboxes', requested: 1, available: 0 },
    ],
    ['the pool had no sandbox ready', { resource: 'sandboxes', requested: 1, available: 0 }],
    ['exceeded quota: q, requested: pods=many', { resource: 'sandboxes', requested: 1, available: 0 }],
  ])('is read from %s', (message, lack) => {
    expect(lackIn(message)).toEqual(lack)
  })

  it('is parsed in linear time from hostile messages', () => {
    const ms = processorMs(() => {
      for (const piece of ['requested: a=a', 'a=a, ', 'used: ', 'requested: a=a, used: a=a, limited: '])
        lackIn(`exceeded quota ${piece.repeat(1_000)}`)
    })

    expect(ms).toBeLessThan(500)
  })
})
