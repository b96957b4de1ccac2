import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { type ModelReply, textOf } from '../fakes/model-server.ts'
import { stopTimers } from '../helpers/stop-timers.ts'
import { until } from '../helpers/until.ts'
import { aModel, anAgent, aStateDir, endpoint, ok, runTurn } from './agent-rig.ts'
import { childPids, isRunning } from './children.ts'
import { GENEROUS_LIMITS } from './generous-limits.ts'

/** How many files and folders the agent runtime has in its folder. */
const filesBelow = async (stateDir: string) => (await readdir(stateDir, { recursive: true })).length - 1

const failingWith = async (reply: ModelReply) => {
  const server = await aModel((request) =>
    textOf(request.messages.at(-1)).includes('once more') ? { text: 'recovered' } : reply,
  )
  const { agent } = await anAgent(endpoint(server))
  return { agent, server }
}

describe('a model that does not answer', () => {
  it.each([
    [401, 'agent_failed', /refused the credential \(HTTP 401\).*API key/],
    [402, 'agent_quota_exceeded', /quota is used up \(HTTP 402\)/],
    [404, 'agent_failed', /no model "fake-model".*HTTP 404/],
    [400, 'agent_failed', /no usable response \(HTTP 400\)/],
  ])('fails the turn with a helpful message if its server returns %i', async (status, code, message) => {
    const { agent } = await failingWith({ status })

    const { result } = await runTurn(agent)

    expect(result).toEqual({ state: 'failed', code, message: expect.stringMatching(message) })
  })

  it('fails the turn, but not the session, if the response is not a stream', async () => {
    const { agent } = await failingWith({ raw: 'data: {"nonsense\n\n' })

    const broken = await runTurn(agent)
    const next = await runTurn(agent, 'once more')

    expect(broken.result).toMatchObject({ state: 'failed', code: 'agent_failed' })
    expect(next.result).toEqual({ state: 'completed' })
  })

  it('fails the turn if nothing arrives within the idle time, and the next turn works', async () => {
    const server = await aModel((_request, index) => (index === 0 ? { hang: true } : { text: 'awake' }))
    stopTimers()
    const { agent } = await anAgent(endpoint(server))

    const turn = runTurn(agent)
    await until('the model is asked', () => server.requests.length > 0)
    vi.advanceTimersByTime(GENEROUS_LIMITS.idleMs)
    const silent = await turn
    const next = await runTurn(agent)

    expect(silent.result).toMatchObject({ state: 'failed', code: 'agent_stall_timeout' })
    expect(next.result).toEqual({ state: 'completed' })
  })

  it('fails a turn that exceeds the maximum duration', async () => {
    const server = await aModel(() => ({ text: 'word '.repeat(1000), pauseMs: 20 }))
    const { agent } = await anAgent(endpoint(server), { limits: { ...GENEROUS_LIMITS, turnMs: 500 } })

    const { result } = await runTurn(agent)

    expect(result).toMatchObject({ state: 'failed', code: 'deadline_exceeded' })
  })
})

describe('a slow tool call', () => {
  it('may take much longer than the idle time', async () => {
    const server = await aModel((_request, index) =>
      index === 0
        ? { toolCalls: [{ name: 'ask_question', arguments: { question: 'Which?' } }] }
        : { text: 'thanks' },
    )
    stopTimers()
    const { agent } = await anAgent(endpoint(server), {
      callTool: async () => {
        vi.advanceTimersByTime(2 * GENEROUS_LIMITS.idleMs)
        return ok('the second')
      },
    })

    const { result } = await runTurn(agent)

    expect(result).toEqual({ state: 'completed' })
    expect(textOf(server.requests[1]?.messages.at(-1))).toBe('the second')
  })

  it('ends the turn if the host fails', async () => {
    const server = await aModel(() => ({
      toolCalls: [{ name: 'create', arguments: { path: 'a', file_text: '' } }],
    }))
    const { agent } = await anAgent(endpoint(server), {
      callTool: () => Promise.reject(new SandboxError('sandbox_lost', 'the runner is gone')),
    })

    const { result } = await runTurn(agent)

    expect(result).toEqual({ state: 'failed', code: 'sandbox_lost', message: 'the runner is gone' })
  })
})

describe('cancelling a turn', () => {
  it.each([
    ['while the model is silent', { hang: true } as ModelReply],
    ['while the model is streaming', { text: 'word '.repeat(1000), pauseMs: 20 } as ModelReply],
    ['while a call is open', { toolCalls: [{ name: 'edit', arguments: { path: 'a' } }] } as ModelReply],
  ])('ends it %s, and the session continues in the same process', async (_when, reply) => {
    const server = await aModel((request) =>
      textOf(request.messages.at(-1)).includes('once more') ? { text: 'here I am' } : reply,
    )
    const { agent } = await anAgent(endpoint(server), { callTool: () => new Promise(() => undefined) })
    const before = await childPids()
    const cancel = new AbortController()
    const turn = runTurn(agent, 'begin', cancel.signal)
    await until('the model is asked', () => server.requests.length > 0)

    cancel.abort()
    const { result } = await turn
    const next = await runTurn(agent, 'once more')

    expect(result).toEqual({ state: 'cancelled' })
    expect(next.result).toEqual({ state: 'completed' })
    // It stopped on request: the time after which it would have been killed has not passed.
    expect(await childPids()).toEqual(before)
  })

  it('kills a runtime that does not stop, and the session continues in another process', async () => {
    const before = await childPids()
    const server = await aModel((_request, index) => (index === 0 ? { hang: true } : { text: 'here I am' }))
    const { agent } = await anAgent(endpoint(server), { limits: { ...GENEROUS_LIMITS, cancelMs: 300 } })
    const [pid = -1] = (await childPids()).filter((child) => !before.includes(child))
    const cancel = new AbortController()
    const turn = runTurn(agent, 'begin', cancel.signal)
    await until('the model is asked', () => server.requests.length > 0)

    process.kill(pid, 'SIGSTOP')
    cancel.abort()
    const { result } = await turn
    const next = await runTurn(agent, 'once more')

    expect(result).toEqual({ state: 'cancelled' })
    expect(next.result).toEqual({ state: 'completed' })
    await until('the runtime is gone', async () => !(await isRunning(pid)))
  })

  it('aborts the signal of an open call', async () => {
    const server = await aModel(() => ({ toolCalls: [{ name: 'create', arguments: {} }] }))
    const cancel = new AbortController()
    const seen = Promise.withResolvers<AbortSignal>()
    const { agent } = await anAgent(endpoint(server), {
      callTool: (_call, signal) => {
        seen.resolve(signal)
        return new Promise(() => undefined)
      },
    })
    const turn = runTurn(agent, 'begin', cancel.signal)
    const signal = await seen.promise

    cancel.abort()
    await turn

    expect(signal.aborted).toBe(true)
  })
})

describe('an agent runtime that dies', () => {
  it('fails the turn, and the next one continues the conversation', async () => {
    const before = await childPids()
    const server = await aModel((_request, index) =>
      index === 1 ? { hang: true } : { text: `answer ${index}` },
    )
    const { agent } = await anAgent(endpoint(server))
    await runTurn(agent, 'the first question')
    const [pid = -1] = (await childPids()).filter((child) => !before.includes(child))
    const turn = runTurn(agent, 'the second question')
    await until('the model is asked again', () => server.requests.length === 2)

    process.kill(pid, 'SIGKILL')
    const killed = await turn
    const next = await runTurn(agent, 'the third question')

    expect(killed.result).toMatchObject({ state: 'failed', code: 'agent_failed' })
    expect(next.result).toEqual({ state: 'completed' })
    const told = server.requests.at(-1)?.messages.map((message) => textOf(message)) ?? []
    expect(told).toContain('answer 0')
  })

  it.each(['SIGKILL', 'SIGSTOP'] as const)(
    'is replaced if it gets %s before it has written the first event, and the session can be used',
    async (signal) => {
      const before = await childPids()
      const server = await aModel(() => ({ text: 'here I am' }))
      const { agent } = await anAgent(endpoint(server), { limits: { ...GENEROUS_LIMITS, cancelMs: 300 } })
      const [pid = -1] = (await childPids()).filter((child) => !before.includes(child))
      const files = await agent.exportSession()
      process.kill(pid, signal)
      const cancel = new AbortController()
      const turn = runTurn(agent, 'begin', cancel.signal)
      cancel.abort()
      await turn

      const next = await runTurn(agent, 'once more')

      // The runtime had written other files, so the session was not empty.
      expect([...files.keys()]).toContain('files/workspace.yaml')
      expect([...files.keys()]).not.toContain('files/events.jsonl')
      expect(next.result).toEqual({ state: 'completed' })
    },
  )

  it('is not left behind if it is stopped and does not react', async () => {
    const before = await childPids()
    const server = await aModel(() => ({ hang: true }))
    const { agent } = await anAgent(endpoint(server))
    const [pid = -1] = (await childPids()).filter((child) => !before.includes(child))
    process.kill(pid, 'SIGSTOP')

    await agent.close()

    expect(await childPids()).toEqual(before)
  })

  it.each([
    ['ends at once', '#!/bin/sh\nexit 3\n', GENEROUS_LIMITS.startMs],
    ['never writes anything', '#!/bin/sh\nexec sleep 60\n', 300],
    ['ends in the middle of a message', '#!/bin/sh\nhead -c 100\nexit 3\n', GENEROUS_LIMITS.startMs],
  ])('fails the setup if it %s, and leaves no process', async (_what, script, startMs) => {
    const before = await childPids()
    const stateDir = await aStateDir()
    const program = join(await aStateDir(), 'runtime')
    await writeFile(program, script, { mode: 0o755 })

    const opening = anAgent(
      { kind: 'openaiCompatible', model: { name: 'm', baseUrl: 'http://127.0.0.1:9/v1' } },
      { stateDir, limits: { ...GENEROUS_LIMITS, startMs }, runtimeEnv: { COPILOT_CLI_PATH: program } },
    )

    await expect(opening).rejects.toMatchObject({ code: 'configure_failed' })
    expect(await readdir(stateDir)).toEqual([])
    expect(await childPids()).toEqual(before)
  })

  it.each([
    ['it was started', 'configure_failed'],
    // On a busy machine, the session is open before the test sees the file.
    ['it has written a file', /^(configure_failed|failed|completed)$/],
    ['its session is open', /^(failed|completed)$/],
    ['the model is asked', 'failed'],
    ['a tool is called', 'failed'],
    ['the model is asked again', 'failed'],
  ])('causes no unhandled rejection and no hanging promise if it dies when %s', async (moment, expected) => {
    const before = await childPids()
    const stateDir = await aStateDir()
    const started = async () => (await childPids()).filter((pid) => !before.includes(pid))
    const dieWhen = async (when: string) => {
      if (when === moment) for (const pid of await started()) process.kill(pid, 'SIGKILL')
    }
    const server = await aModel(async (_request, index) => {
      await dieWhen(index === 0 ? 'the model is asked' : 'the model is asked again')
      return index === 0 ? { toolCalls: [{ name: 'create', arguments: {} }] } : { text: 'done' }
    })
    const callTool = async () => {
      await dieWhen('a tool is called')
      return ok('done')
    }
    const running = anAgent(endpoint(server), { stateDir, callTool })
      .then(async ({ agent }) => {
        await dieWhen('its session is open')
        return runTurn(agent)
      })
      .then((turn) => turn.result.state)
      .catch((error: SandboxError) => error.code)
    if (moment === 'it was started') {
      await until(moment, async () => (await started()).length > 0)
      await dieWhen(moment)
    }
    if (moment === 'it has written a file') {
      await until(moment, async () => (await filesBelow(stateDir)) > 0)
      await dieWhen(moment)
    }

    expect(await running).toMatch(expected)
    expect(await started()).toEqual([])
  })
})
