import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { SessionFiles } from '../../runtime/agents/agent.ts'
import { wholeRecords } from '../../runtime/agents/copilot/stored-events.ts'
import { aModel, endpoint, ok } from './agent-rig.ts'
import { conversationOf, restore, startTurn, suspend } from './suspended-turns.ts'

const EVENTS = 'files/events.jsonl'

/** A model that first makes two calls, of which `create` waits, and later only sends text. */
async function aServer() {
  const server = await aModel(({ messages }) =>
    messages.length < 3
      ? {
          text: 'I will \u{1F99A}.',
          toolCalls: [
            { id: 'call_a', name: 'create', arguments: { path: 'a', file_text: 'x' } },
            { id: 'call_b', name: 'edit', arguments: { path: 'b', old_str: 'x', new_str: 'y' } },
          ],
        }
      : { text: 'over' },
  )
  return { server, config: endpoint(server) }
}

/** The suspended session, its events, and the offset of each record followed by the length of the file. */
async function record() {
  const { config } = await aServer()
  const { sessionFiles } = await suspend(config, { waiting: ['create'], answers: { edit: ok('edited') } })
  const events = Buffer.from(sessionFiles.get(EVENTS) ?? [])
  const offsets = [0]
  for (let at = events.indexOf('\n'); at !== -1; at = events.indexOf('\n', at + 1)) offsets.push(at + 1)
  const cut = (bytes: Uint8Array): SessionFiles => new Map([...sessionFiles, [EVENTS, bytes]])
  return { events, offsets, cut }
}

let recorded: ReturnType<typeof record> | undefined
const recording = () => {
  recorded ??= record()
  return recorded
}

/** Opens the damaged session with the real agent runtime and sends a prompt. */
async function promptAfter(files: SessionFiles) {
  const { server, config } = await aServer()
  const { agent, desk } = await restore(config, files)
  const { suspendedTurn } = agent
  const result = await startTurn(agent, { turnId: 't2', prompt: 'go on' }).result
  const again = await agent.exportSession()
  await agent.close()
  return { suspendedTurn, result, desk, again, conversation: conversationOf(server.requests.at(-1)) }
}

describe('a session whose events are damaged', () => {
  it('is cut back to its last whole record, at every byte of the last three records', async () => {
    const { events, offsets } = await recording()
    const from = offsets.at(-4) ?? 0
    for (let length = from; length <= events.length; length++) {
      const { events: whole, dropped } = wholeRecords(events.subarray(0, length).toString())
      // A record is whole without its line feed too.
      const end = offsets.findLast((offset) => offset <= length + 1) ?? 0

      expect(whole, `${length} bytes`).toBe(events.subarray(0, end).toString())
      expect(dropped > 0, `${length} bytes`).toBe(end < length)
    }
    expect(events.length - from, 'the records have a size').toBeGreaterThan(300)
  })

  it('is opened by the agent runtime, and every call in it has one result', async () => {
    const { events, offsets, cut } = await recording()
    const ends = offsets.slice(-4)
    const lengths = ends.flatMap((end, at) => [
      end - 1,
      end,
      end + 1,
      Math.floor((end + (ends[at + 1] ?? end)) / 2),
    ])
    for (const length of new Set(lengths.filter((one) => one <= events.length))) {
      const { result, conversation, desk } = await promptAfter(cut(events.subarray(0, length)))

      expect(result, `${length} bytes`).toEqual({ state: 'completed' })
      expect(conversation.at(0)).toBe('user: do it')
      expect(conversation.at(-1)).toBe('user: go on')
      expect(desk.calls, 'no call is made again').toEqual([])
    }
  })

  it('can be continued only while it holds every open call and every result', async () => {
    const { events, offsets, cut } = await recording()
    const resumable: unknown[] = []
    for (const end of offsets.slice(-3)) {
      resumable.push((await promptAfter(cut(events.subarray(0, end)))).suspendedTurn)
    }

    // The last record is the result of the call that had ended.
    expect(resumable).toEqual([undefined, undefined, 't1'])
  })

  it('is whole again after the next turn', async () => {
    const { events, cut } = await recording()

    const { again } = await promptAfter(cut(events.subarray(0, events.length - 5)))

    const stored = Buffer.from(again.get(EVENTS) ?? []).toString()
    expect(wholeRecords(stored)).toEqual({ events: stored, dropped: 0 })
    expect(stored).toContain('go on')
  })

  it.each(['\0\0\0\0\n', '{"type":"user.message"\n', '[]\n', '"text"\n', '\n'])(
    'is cut back before the record %j',
    async (garbage) => {
      const { events, offsets, cut } = await recording()
      const end = offsets.at(-3) ?? 0
      const damaged = Buffer.concat([events.subarray(0, end), Buffer.from(garbage), events.subarray(end)])

      const { result, conversation } = await promptAfter(cut(damaged))

      expect(wholeRecords(damaged.toString()).events).toBe(events.subarray(0, end).toString())
      expect(result).toEqual({ state: 'completed' })
      expect(conversation.at(-1)).toBe('user: go on')
    },
  )

  it.each([
    ['nothing is left', (_events: Buffer) => Buffer.alloc(0)],
    ['its first record is damaged', (events: Buffer) => events.subarray(1)],
    ['no message is left', (events: Buffer) => events.subarray(0, events.indexOf('\n') + 5)],
  ])('is rejected with a reason if %s', async (_what, damage) => {
    const { events, cut } = await recording()
    const { config } = await aServer()

    const restored = restore(config, cut(damage(events)))

    await expect(restored).rejects.toMatchObject({
      code: 'configure_failed',
      message: expect.stringContaining('events.jsonl is damaged before the first message'),
    })
  })
})

it('a session that was exported before its first turn starts a conversation', async () => {
  const { config } = await aServer()
  const first = await restore(config, sessionWithoutTurns(), { generation: 1 })
  const sessionFiles = await first.agent.exportSession()
  await first.agent.close()

  const { agent } = await restore(config, sessionFiles, {
    answers: { create: ok('created'), edit: ok('edited') },
  })
  const result = await startTurn(agent, { turnId: 't1' }).result

  expect(result).toEqual({ state: 'completed' })
})

const sessionWithoutTurns = (): SessionFiles =>
  new Map([['session.json', Buffer.from(JSON.stringify({ kind: 'copilot', sessionId: randomUUID() }))]])
