import { once } from 'node:events'
import { request } from 'node:http'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { FinishedCommand } from '../../contracts/api.ts'
import type { RunEvent } from '../../contracts/events.ts'
import { HEARTBEAT_MS } from '../../contracts/limits.ts'
import { isPreferred } from '../../runtime/api/http/accept.ts'
import { finishedCommandJson } from '../../runtime/api/http/finished-command.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { until } from '../helpers/until.ts'
import { bearer, listen, startApp } from './harness.ts'
import { makeFixture } from './sample-requests.ts'

const JSON_TYPE = 'application/json'
const output = (commandId: string, chunk: string, stream: 'stdout' | 'stderr' = 'stdout'): RunEvent => ({
  type: 'command.output',
  data: { commandId, stream, chunk },
})
const exited = (commandId: string, more: object = {}): RunEvent => ({
  type: 'command.exited',
  data: {
    commandId,
    result: {
      exitCode: 3,
      signal: null,
      timedOut: false,
      outputTruncated: false,
      stdoutBytes: 9,
      stderrBytes: 4,
      reason: 'exit',
      durationMs: 12,
      ...more,
    },
  },
})
const refused: RunEvent = {
  type: 'egress.denied',
  data: { host: 'example.com', port: 443, rule: 'not-listed', reason: 'r', remedy: 'm', count: 2 },
}

/** A service whose commands cause the given events. */
async function start(events: (commandId: string) => RunEvent[]) {
  const harness = startApp()
  harness.service.commandEvents = events
  const { sandboxId } = await makeFixture(harness)
  const exec = (headers: Record<string, string>, body: object = {}) =>
    harness.app.inject({
      method: 'POST',
      url: `/api/sandboxes/${sandboxId}/commands`,
      headers: { ...headers, ...bearer(harness.keys.ada) },
      body: { command: 'true', ...body },
    })
  return { ...harness, sandboxId, exec }
}

describe('a command with Accept: application/json', () => {
  test('returns one document with its result, its output and the refused connections', async () => {
    const { exec } = await start((id) => [
      output(id, 'a "b"\n\u0000'),
      output('cmd_other', 'not mine'),
      refused,
      output(id, 'oops', 'stderr'),
      output(id, '\ud83d'),
      output(id, '\ude00'),
      exited(id),
      output(id, 'too late'),
    ])

    const answer = await exec({ accept: JSON_TYPE })

    expect(answer.statusCode).toBe(200)
    expect(answer.headers['content-type']).toContain(JSON_TYPE)
    expect(FinishedCommand.parse(answer.json())).toEqual({
      commandId: expect.stringMatching(/^cmd_/),
      exitCode: 3,
      signal: null,
      timedOut: false,
      reason: 'exit',
      durationMs: 12,
      stdoutBytes: 9,
      stderrBytes: 4,
      stdout: 'a "b"\n\u0000😀',
      stderr: 'oops',
      outputTruncated: false,
      stdoutCutBytes: 0,
      stderrCutBytes: 0,
      refusals: [refused.data],
    })
  })

  test('has at most the bytes that the request allows, also if the sandbox sends more', async () => {
    const { exec } = await start((id) => [
      output(id, 'äöü'),
      output(id, 'more'),
      output(id, 'abc', 'stderr'),
      exited(id),
    ])

    const cut = await exec({ accept: JSON_TYPE }, { maxOutputBytes: 5 })
    const whole = await exec({ accept: JSON_TYPE }, { maxOutputBytes: 10 })

    expect(cut.json()).toMatchObject({ stdout: 'äö', stdoutCutBytes: 6, stderr: 'abc', stderrCutBytes: 0 })
    expect(cut.json().outputTruncated).toBe(true)
    expect(whole.json()).toMatchObject({ stdout: 'äöümore', stdoutCutBytes: 0, outputTruncated: false })
  })

  test('counts what the executor has cut already', async () => {
    const { exec } = await start((id) => [
      output(id, 'abcde'),
      exited(id, { stdoutBytes: 12, stderrBytes: 0, outputTruncated: true }),
    ])

    expect((await exec({ accept: JSON_TYPE })).json()).toMatchObject({
      stdout: 'abcde',
      stdoutCutBytes: 7,
      stderrCutBytes: 0,
      outputTruncated: true,
    })
  })

  test('is lost if the run ends first', async () => {
    const { exec } = await start((id) => [output(id, 'half'), { type: 'done', data: { state: 'cancelled' } }])

    expect((await exec({ accept: JSON_TYPE })).json()).toMatchObject({
      reason: 'lost',
      exitCode: null,
      stdout: 'half',
      message: 'The run ended before the command did.',
    })
  })

  test('runs once for two requests with one idempotency key', async () => {
    const { exec, service } = await start((id) => [output(id, 'once'), exited(id)])
    const headers = { accept: JSON_TYPE, 'idempotency-key': 'a-key' }

    const first = await exec(headers)
    const second = await exec(headers)

    expect(second.json()).toEqual(first.json())
    expect(service.calls.filter((call) => call === 'startCommand')).toHaveLength(1)
  })

  test('gets a problem and no document if the policy refuses the command', async () => {
    const { exec, service } = await start(() => [])
    service.fail(new SandboxError('policy_denied', 'The settings turn the shell off.'))

    const answer = await exec({ accept: JSON_TYPE })

    expect([answer.statusCode, answer.json().code]).toEqual([403, 'policy_denied'])
    expect(answer.headers['content-type']).toContain('application/problem+json')
  })

  test('is never answered with a part as if it were the whole, when the service stops', async () => {
    const streams = { perKey: 10, inAll: 10 }
    const harness = startApp({ streams })
    const url = await listen(harness)
    harness.service.commandEvents = (id) => [output(id, 'half')]
    const { sandboxId } = await makeFixture(harness)
    const call = request(`${url}/api/sandboxes/${sandboxId}/commands`, {
      method: 'POST',
      headers: { accept: JSON_TYPE, 'content-type': JSON_TYPE, ...bearer(harness.keys.ada) },
    })
    call.end(JSON.stringify({ command: 'true' }))
    const answered = once(call, 'response')
    await until('the command has started', () => harness.service.calls.includes('startCommand'))

    await harness.app.close()

    const [response] = await answered
    expect(response.statusCode).toBe(503)
  })
})

test('a line feed keeps the connection alive while the command runs', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const { promise: ending, resolve: end } = Promise.withResolvers<void>()
  async function* events() {
    await ending
    yield { sequence: 1, at: '2026-01-01T00:00:00.000Z', event: exited('cmd_1') }
  }
  const command = { commandId: 'cmd_1', maxOutputBytes: 10, readAgain: async () => events() }
  const pieces = finishedCommandJson(events(), command)

  const first = pieces.next()
  await vi.advanceTimersByTimeAsync(HEARTBEAT_MS)
  const waited = await first
  end()
  let text = ''
  for await (const piece of pieces) text += piece

  expect(waited.value).toBe('\n')
  expect(JSON.parse(`\n${text}`)).toMatchObject({ exitCode: 3, stdout: '' })
})

test.for<[string | undefined, boolean]>([
  [undefined, false],
  ['*/*', false],
  ['text/event-stream', false],
  ['text/html', false],
  ['text/event-stream, application/json', false],
  ['application/json;q=0.5, text/event-stream', false],
  ['application/json;q=0', false],
  ['application/json;q=x', false],
  ['application/json', true],
  ['Application/JSON; charset=utf-8', true],
  ['application/json, text/plain, */*', true],
  ['application/json, application/problem+json', true],
  ['text/event-stream;q=0.1, application/*', true],
  ['text/*;q=0.3, */*;q=0.8', true],
])('Accept: %s prefers the document: %s', ([accept, expected]) => {
  expect(isPreferred(JSON_TYPE, 'text/event-stream', accept)).toBe(expected)
})

test('Prefer: respond-async only starts a command, for every accepted type', async () => {
  const { exec } = await start(() => [])

  expect((await exec({ accept: JSON_TYPE, prefer: 'respond-async' })).statusCode).toBe(202)
})
