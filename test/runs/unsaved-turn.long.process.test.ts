import { describe, expect, it, onTestFinished } from 'vitest'
import { silentLog } from '../../runtime/kit/log.ts'
import { openStore } from '../../runtime/store/open-store.ts'
import type { Store } from '../../runtime/store/store.ts'
import { until } from '../helpers/until.ts'
import { alice, aRun, follow, shell, startService, tool } from './service-rig.ts'

const REPORT = tool('report_outcome', { outcome: 'succeeded', summary: 'the first request is done' })

/** A service whose checkpoints fail while `isAway` is set. */
async function aServiceWithoutCheckpoints() {
  let isAway = false
  const open = async (location: Parameters<typeof openStore>[0]): Promise<Store> => {
    const store = await openStore(location, { log: silentLog })
    const writeContent: Store['writeContent'] = (...given) =>
      isAway ? Promise.reject(new Error('no checkpoint')) : store.writeContent(...given)
    return { ...store, writeContent }
  }
  const rig = await startService({}, open)
  onTestFinished(() => rig.close())
  const setAway = (value: boolean) => {
    isAway = value
  }
  return { ...rig, setAway }
}

describe('a turn that ended without a checkpoint before its sandbox was lost', () => {
  it.each([
    ['comes after the loss', false],
    ['was queued before the loss', true],
  ])('is told to the model with the next turn, which %s', async (_when, isQueuedBefore) => {
    const { service, store, aWorkspace, setAway } = await aServiceWithoutCheckpoints()
    setAway(true)
    const request = aRun(aWorkspace(), [shell('echo did the first'), REPORT])
    const { id } = await service.startRun(alice, { ...request, interactive: true })
    await until('the first turn ended', async () => (await service.readRun(alice, id)).state === 'waiting')
    const [claim] = await store.listClaims(['bound'])
    const { pid } = claim!.handle as { pid: number }
    const next = () => service.startTurn(alice, id, { prompt: 'the second request', final: true })

    if (isQueuedBefore) await store.transaction((tx) => tx.insertTurn(aQueuedTurn(id)))
    process.kill(-pid, 'SIGKILL')
    await until('it continues', async () => ((await store.readRun(id))?.generation ?? 0) === 2)
    setAway(false)
    if (!isQueuedBefore) await next()
    await follow(service, id)

    const turns = await store.transaction((tx) => tx.listTurns(id))
    expect(turns).toHaveLength(2)
    const told = turns[1]?.sentPrompt ?? ''
    expect(told).toContain('does not show the request before')
    expect(told).toContain(JSON.stringify(turns[0]?.prompt))
    expect(told).toContain('the first request is done')
    expect(told).toContain('echo did the first')
    expect(told).toMatch(/\n\nthe second request$/)
  })
})

const aQueuedTurn = (runId: string) =>
  ({ id: `${runId}-second`, runId, state: 'queued', prompt: 'the second request', final: true }) as const
