import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import type { ErrorCode } from '../../contracts/errors.ts'
import type { RunDeps } from '../../runtime/api/runs/deps.ts'
import { CAPACITY_WAIT, type Capacity, launchWhenRoom } from '../../runtime/api/runs/queue/await-capacity.ts'
import { CapacityQueue } from '../../runtime/api/runs/queue/capacity-queue.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { openStore } from '../../runtime/store/open-store.ts'
import type { RunRow } from '../../runtime/store/store.ts'
import { until } from '../helpers/until.ts'
import { aRun } from '../store/rows.ts'

const FULL = 'exceeded quota: q, requested: pods=1, used: pods=5, limited: pods=5'

/** A queued run, and a cluster that rejects each of its claims with the next of these codes. */
async function aRunWithout(
  refusals: readonly ErrorCode[],
  before: (queue: CapacityQueue) => unknown = () => undefined,
  {
    onClaim = () => undefined,
    over = {},
  }: { readonly onClaim?: (attempt: number) => unknown; readonly over?: Partial<RunRow> } = {},
) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-capacity-'))
  const store = await openStore({ kind: 'sqlite', file: join(folder, 'store.db') }, { log: silentLog })
  onTestFinished(async () => {
    await store.close()
    rmSync(folder, { recursive: true })
  })
  const run = await store.transaction((tx) =>
    tx.insertRun(aRun({ id: 'run_1', agent: { kind: 'none' }, agentSpec: null })),
  )
  const left = [...refusals]
  const claimed: string[] = []
  const collected: string[] = []
  const provider = {
    namespace: 'sandboxes',
    draft: (claimName: string) => ({ claimName }),
    collect: async ({ claimName }: { claimName: string }) => void collected.push(claimName),
    claim: async ({ claimName }: { claimName: string }) => {
      claimed.push(claimName)
      onClaim(claimed.length)
      throw new SandboxError(left.shift() ?? 'agent_quota_exceeded', FULL)
    },
  }
  const capacity = new CapacityQueue()
  const queues: Capacity = { agent: capacity, command: new CapacityQueue() }
  before(capacity)
  const deps = {
    store,
    provider,
    keys: { keyId: 'k1' },
    clock: () => new Date(),
    log: silentLog,
    capacity: queues,
    capacityWait: { ...CAPACITY_WAIT, firstPauseMs: 1, longestPauseMs: 20 },
  } as unknown as RunDeps & { capacity: Capacity }
  const stop = new AbortController()
  const launching = launchWhenRoom(deps, { ...run, ...over }, stop.signal)
  launching.catch(() => undefined)
  return { store, run, launching, capacity, claimed, collected, stop }
}

it('fails after ten reported waits; each attempt makes a new claim and leaves none behind', async () => {
  const { store, launching, capacity, claimed, collected } = await aRunWithout([])

  for (let attempt = 1; attempt < 11; attempt += 1) {
    await until(`attempt ${attempt} to wait`, async () => claimed.length === attempt && capacity.length === 1)
    capacity.noteRoom()
  }

  await expect(launching).rejects.toMatchObject({
    code: 'capacity_unavailable',
    message: expect.stringContaining('exceeded quota'),
  })
  const told = (await store.readEvents('run_1', 0, 100)).flatMap(({ event }) =>
    event.type === 'subtask.pending_capacity' ? [event.data] : [],
  )
  expect(told.map(({ attempt }) => attempt)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
  expect(told[0]).toMatchObject({ resource: 'pods', requested: 1, available: 0 })
  expect(new Set(claimed).size).toBe(11)
  expect(collected).toEqual(claimed)
  expect(await store.listClaims(['requested', 'bound'])).toEqual([])
})

it.each<ErrorCode>(['agent_pod_reconciler_error', 'identity_mismatch', 'sandbox_lost', 'conflict'])(
  'does not wait for capacity if the launch failed with %s',
  async (code) => {
    const { launching, claimed, store } = await aRunWithout([code])

    await expect(launching).rejects.toMatchObject({ code })
    expect(claimed).toHaveLength(1)
    expect(await store.readEvents('run_1', 0, 100)).toEqual([])
  },
)

it('retries at once if capacity was freed during the failed attempt', async () => {
  let queue: CapacityQueue | undefined
  const { claimed, stop } = await aRunWithout([], (capacity) => (queue = capacity), {
    onClaim: (attempt) => attempt === 1 && queue?.noteRoom(),
  })

  await until('the second attempt', async () => claimed.length === 2)
  await until('it waits', async () => queue?.length === 1)

  expect(claimed).toHaveLength(2)
  stop.abort(new SandboxError('run_ended', 'the run ended'))
})

it('waits on after ten attempts if the run has work to lose', async () => {
  const { claimed, launching, capacity, stop } = await aRunWithout([], undefined, {
    over: { checkpoint: { sequence: 1 } },
  })

  await until('the eleventh attempt', async () => {
    capacity.noteRoom()
    return claimed.length > CAPACITY_WAIT.attempts
  })
  stop.abort(new SandboxError('run_ended', 'the run ended'))

  await expect(launching).rejects.toMatchObject({ code: 'run_ended' })
})

it('ends with its run while it waits', async () => {
  const { launching, capacity, stop } = await aRunWithout(['capacity_unavailable'])
  await until('it waits', async () => capacity.length === 1)

  stop.abort(new SandboxError('run_ended', 'the run ended'))

  await expect(launching).rejects.toMatchObject({ code: 'run_ended' })
  expect(capacity.length).toBe(0)
})

it('stops waiting if another process has taken the run over', async () => {
  const { launching, capacity, store } = await aRunWithout([])
  await until('it waits', async () => capacity.length === 1)

  await store.transaction((tx) => tx.changeRun('run_1', { holder: 'another' }))
  capacity.noteRoom()

  await expect(launching).rejects.toMatchObject({ code: 'conflict' })
})

it('does not overtake runs that already wait', async () => {
  const { claimed, store, capacity } = await aRunWithout([], (queue) =>
    queue.during(() =>
      queue.wait('another', { atLeastMs: 0, atMostMs: 60_000 }, new AbortController().signal),
    ),
  )
  await until('it waits', async () => capacity.length === 2)
  expect(claimed).toEqual([])

  capacity.noteRoom()
  expect(claimed).toEqual([])
  capacity.noteRoom()

  await until('it is its turn', async () => claimed.length === 1)
  expect((await store.readEvents('run_1', 0, 100))[0]?.event.type).toBe('subtask.pending_capacity')
})
