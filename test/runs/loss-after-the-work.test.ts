import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import type { Ending } from '../../runtime/api/runs/drive/finish.ts'
import { endingAfterLoss, requeueLost } from '../../runtime/api/runs/drive/requeue.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { openStore } from '../../runtime/store/open-store.ts'
import type { NewRun, Store } from '../../runtime/store/store.ts'
import { aCall, anEvent, givenRun } from '../store/rows.ts'

const LOSS: Ending = { state: 'failed', code: 'sandbox_lost', message: 'the pod was deleted' }

type Given = Partial<NewRun> & {
  final?: boolean
  next?: boolean
  saved?: boolean
  failed?: boolean
  /** The response to the first commit is lost, so the transaction is tried again. */
  repeated?: boolean
  /** Another process starts the run before the second attempt. */
  restarted?: boolean
}

/** A run whose sandbox is lost after a turn that made one call and reported success. */
async function lost({
  final = false,
  next = false,
  saved = true,
  failed = false,
  repeated,
  restarted,
  ...run
}: Given = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-loss-'))
  const store = await openStore({ kind: 'sqlite', file: join(folder, 'store.db') }, { log: silentLog })
  onTestFinished(async () => {
    await store.close()
    rmSync(folder, { recursive: true })
  })
  const id = await givenRun(store, { holder: 'me', ...run })
  await store.transaction(async (tx) => {
    await tx.insertTurn({ id: 'turn', runId: id, state: 'sent', prompt: 'p', final })
    await tx.appendEvents(id, [anEvent('one'), anEvent('two')])
    await tx.insertCall(aCall(id, { callId: 'call', state: 'released', request: {} }))
    await tx.changeCall(id, 'call', { state: 'ended', sequence: 2 })
    await tx.reportOutcome('turn', { outcome: 'succeeded', summary: 'done' })
    await tx.endTurn('turn', failed ? { state: 'failed', code: 'agent_failed' } : { state: 'completed' })
    if (next) await tx.insertTurn({ id: 'next', runId: id, state: 'queued', prompt: 'p', final: false })
    await tx.changeRunState(id, { from: 'queued', to: 'running' })
    await tx.changeRun(id, { generation: 1, checkpoint: { sequence: saved ? 2 : 0 } })
  })
  const current = await store.readRun(id)
  if (!current) throw new Error('the run is not there')
  const twice: Store['transaction'] = async (work) => {
    await store.transaction(work)
    if (restarted)
      await store.transaction(async (tx) => {
        await tx.changeRunState(id, { from: 'queued', to: 'starting' }, { holder: 'another', generation: 2 })
      })
    return store.transaction(work)
  }
  const of = repeated ? { ...store, transaction: twice } : store
  const deps = { store: of, clock: () => new Date(), redactText: (text: string) => text } as never
  const parts = {
    approvals: { supersedeAll: async () => undefined },
    audit: { append: async () => undefined },
  } as never
  const loss = { code: 'sandbox_lost', message: 'the pod was deleted' } as const
  return {
    state: await requeueLost(deps, parts, { run: current, loss }),
    ending: await endingAfterLoss({ store }, current, LOSS),
  }
}

it('ends as its last turn did when its sandbox is lost after that turn', async () => {
  expect(await lost()).toEqual({ state: undefined, ending: { state: 'succeeded', summary: 'done' } })
  expect(await lost({ final: true, interactive: true })).toMatchObject({ state: undefined })
  expect(await lost({ failed: true })).toMatchObject({ ending: { state: 'failed', code: 'agent_failed' } })
})

it('ends with the loss if the effects of its last turn are lost too', async () => {
  expect(await lost({ saved: false, workspace: { kind: 'upload' } })).toEqual({
    state: undefined,
    ending: LOSS,
  })
  expect(await lost({ saved: false, workspace: { kind: 'path', path: '/srv/a' } })).toMatchObject({
    ending: { state: 'succeeded' },
  })
})

it('continues if there is another turn, or may be one', async () => {
  expect(await lost({ next: true })).toMatchObject({ state: 'queued' })
  expect(await lost({ interactive: true })).toMatchObject({ state: 'queued' })
})

it('is queued once if the response to the commit was lost', async () => {
  expect(await lost({ next: true, repeated: true })).toMatchObject({ state: 'queued' })
})

it('is known to be queued if another process has started it before the lost response is noticed', async () => {
  // Otherwise nobody gives back the lost sandbox until the reaper does, minutes later.
  const of = { next: true, repeated: true, restarted: true }
  expect(await lost(of)).toMatchObject({ state: 'queued' })
})
