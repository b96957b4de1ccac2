import { expect, it } from 'vitest'
import type { Serving } from '../../runtime/api/runs/drive/departure.ts'
import { TurnLoop, type TurnLoopParts } from '../../runtime/api/runs/drive/turn-loop.ts'
import type { TurnRow } from '../../runtime/store/store.ts'

const TURN: TurnRow = { id: 't1', runId: 'r', state: 'sent', prompt: 'go', final: false, ordinal: 1 }

/** Runs the loop for one turn, which ends at once, and returns the requests that the sandbox got. */
async function sentFor(beginning: Parameters<TurnLoop['expect']>[0]) {
  const stop = new AbortController()
  const sent: unknown[] = []
  const loop = new TurnLoop({
    deps: { clock: () => new Date() } as TurnLoopParts['deps'],
    run: {} as TurnLoopParts['run'],
    signal: stop.signal,
    onSign: () => undefined,
    onTurnEnded: async () => stop.abort(),
  })
  const start = async (turn: { id: string; prompt: string }, _signal: AbortSignal, options: object) => {
    sent.push({ ...turn, ...options })
  }
  loop.expect(beginning)
  loop.ended({ turnId: 't1', state: 'completed' })
  await loop.run({ client: { turns: { start } } } as unknown as Serving)
  return sent
}

it('repeats the start of a turn as the former driver sent it', async () => {
  expect(await sentFor({ turn: TURN, resumes: true })).toEqual([{ id: 't1', prompt: 'go', resumes: true }])
  expect(await sentFor({ turn: { ...TURN, sentPrompt: 'preface go' } })).toEqual([
    { id: 't1', prompt: 'preface go', resumes: false },
  ])
})
