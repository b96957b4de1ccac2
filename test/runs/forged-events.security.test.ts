import { beforeEach, describe, expect, it } from 'vitest'
import type { HostEvent } from '../../contracts/events.ts'
import type { BatchCommitter } from '../../runtime/api/runs/ingest/commit-batch.ts'
import type { Store } from '../../runtime/store/store.ts'
import { EXITED } from '../helpers/exec-result.ts'
import { startCommitterRig } from './committer-rig.ts'

const aCall = (callId: string): HostEvent => ({
  type: 'tool.call',
  data: { callId, tool: 'create', request: { path: 'a', file_text: '' }, verdict: 'allow', reasons: [] },
})
const aResult = (callId: string, tool = 'create'): HostEvent => ({
  type: 'tool.result',
  data: { callId, tool, outcome: { ok: true, content: 'done', facts: {} }, durationMs: 1 },
})
const turnEnded = (turnId: string): HostEvent => ({
  type: 'turn.ended',
  data: { turnId, state: 'completed' },
})
const commandExited = (commandId: string): HostEvent => ({
  type: 'command.exited',
  data: { commandId, result: EXITED },
})

let store: Store
let runId: string
let other: string
let verdict: 'allow' | 'deny'
let sequence: number
let committer: BatchCommitter

beforeEach(async () => {
  verdict = 'allow'
  sequence = 0
  const rig = await startCommitterRig(() => verdict)
  ;({ store, runId, other } = rig)
  ;({ committer } = await rig.driver())
})

const commit = (...events: HostEvent[]) =>
  committer.commit({
    runId,
    generation: 1,
    envelopes: events.map((event) => ({ sequence: ++sequence, at: new Date().toISOString(), event })),
  })

const eventsOf = async () => (await store.readEvents(runId, 0, 100)).map(({ event }) => event.type)

describe('a sandbox that reports impossible events', () => {
  it('may report events that match the commands of the run', async () => {
    await commit(aCall('c'), aResult('c'), turnEnded(`turn-of-${runId}`), commandExited(`cmd-of-${runId}`))

    expect(await eventsOf()).toEqual(['tool.call', 'tool.result', 'turn.ended', 'command.exited'])
  })

  it.each<[string, () => HostEvent[]]>([
    ['the result of a call that it never announced', () => [aResult('c')]],
    ['a call that it announced before, with another request', () => [aCall('c'), aCall('c')]],
    ['a second result of a call', () => [aCall('c'), aResult('c'), aResult('c')]],
    [
      'the result of a call under the name of another tool',
      () => [aCall('c'), aResult('c', 'report_outcome')],
    ],
    ['the end of a turn of another run', () => [turnEnded(`turn-of-${other}`)]],
    [
      'the end of a turn for the second time',
      () => [turnEnded(`turn-of-${runId}`), turnEnded(`turn-of-${runId}`)],
    ],
    ['the end of a command of another run', () => [commandExited(`cmd-of-${other}`)]],
  ])('is refused with %s, and nothing of it is stored', async (_what, events) => {
    await expect(commit(...events())).rejects.toMatchObject({ code: 'sandbox_lost' })

    expect(await eventsOf()).toEqual([])
    const [turn, command] = await store.transaction(async (tx) => [
      (await tx.listTurns(other))[0]?.state,
      (await tx.readCommand(other, `cmd-of-${other}`))?.state,
    ])
    expect([turn, command]).toEqual(['sent', 'running'])
  })

  it('is refused with the result of a call that the control plane denied', async () => {
    verdict = 'deny'
    await commit(aCall('c'))

    await expect(commit(aResult('c'))).rejects.toMatchObject({ code: 'sandbox_lost' })
  })
})
