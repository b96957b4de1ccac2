import { readFile } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import { type ModelReply, textOf } from '../fakes/model-server.ts'
import { aModel, anAgent, endpoint, runTurn } from './agent-rig.ts'
import { childPids } from './children.ts'

const MEBIBYTE = 1_048_576
const FORTY_MB = 40_000_000

const writing = (more: Partial<ModelReply> = {}): ModelReply => ({
  toolCalls: [{ name: 'create', arguments: { path: 'a.txt', file_text: 'x'.repeat(FORTY_MB) } }],
  ...more,
})

/** Peak memory of a process, in bytes. */
async function peakOf(pid: number): Promise<number> {
  const [, kibibytes] = /^VmHWM:\s+(\d+) kB$/m.exec(await readFile(`/proc/${pid}/status`, 'utf8')) ?? []
  return Number(kibibytes) * 1024
}

describe('a model that writes 40 MB of arguments', () => {
  it('gets a message that its answer was stopped, and the turn continues', async () => {
    const server = await aModel((_request, index) =>
      index === 0 ? writing({ pauseMs: 2 }) : { text: 'I will write it in parts.' },
    )
    const { agent, calls, rejected } = await anAgent(endpoint(server))

    const { result, events } = await runTurn(agent)

    expect(result).toEqual({ state: 'completed' })
    expect(calls, 'nothing was carried out').toEqual([])
    expect(rejected).toEqual([
      expect.objectContaining({ tool: 'create', arguments: null, code: 'arguments_too_large' }),
    ])
    expect(textOf(server.requests.at(-1)?.messages.at(-1))).toContain('Your last answer was stopped')
    expect(events).toContainEqual(
      expect.objectContaining({
        type: 'agent.message',
        data: expect.objectContaining({ text: 'I will write it in parts.' }),
      }),
    )
  })

  it('is stopped while it writes, so that the agent runtime stays small', async () => {
    // Only the limit ends this answer: its server sends until the client disconnects.
    const server = await aModel((_request, index) =>
      index === 0 ? writing({ holdAfter: 12 * MEBIBYTE }) : { text: 'ok' },
    )
    const before = await childPids()
    const { agent } = await anAgent(endpoint(server))
    const [pid = -1] = (await childPids()).filter((child) => !before.includes(child))

    const { result } = await runTurn(agent)

    expect(result).toEqual({ state: 'completed' })
    // The complete answer would need 2.3 GB.
    expect(await peakOf(pid)).toBeLessThan(600 * MEBIBYTE)
  })

  it('fails the turn if it repeats this, and the next turn works', async () => {
    const server = await aModel((request) =>
      textOf(request.messages.at(-1)).includes('once more')
        ? { text: 'here I am' }
        : writing({ holdAfter: 12 * MEBIBYTE }),
    )
    const { agent, rejected } = await anAgent(endpoint(server))
    const before = await childPids()

    const { result } = await runTurn(agent)
    const next = await runTurn(agent, 'once more')

    expect(result).toMatchObject({ state: 'failed', code: 'agent_failed' })
    expect(result).toMatchObject({ message: expect.stringContaining('3 responses of more than') })
    expect(rejected).toHaveLength(3)
    expect(next.result).toEqual({ state: 'completed' })
    expect(await childPids(), 'the same process').toEqual(before)
  })
})

it('a long error text of a server is cut in the event', async () => {
  const server = await aModel(() => ({ status: 400, body: { error: { message: 'y'.repeat(1_000_000) } } }))
  const { agent } = await anAgent(endpoint(server))

  const { result } = await runTurn(agent)

  expect(result).toMatchObject({ state: 'failed', code: 'agent_failed' })
  expect(JSON.stringify(result).length).toBeLessThan(3_000)
})
