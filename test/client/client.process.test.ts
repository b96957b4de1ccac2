import { once } from 'node:events'
import { createServer } from 'node:http'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { RunEnvelope, RunEvent } from '../../contracts/events.ts'
import { createClient } from '../../runtime/client/client.ts'
import { ProblemError } from '../../runtime/client/problem-error.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { listen, RUN, startApp } from '../api/harness.ts'
import { startCuttingProxy } from './cutting-proxy.ts'

const delta = (text: string): RunEvent => ({ type: 'agent.message.delta', data: { messageId: 'm', text } })
const DONE: RunEvent = { type: 'done', data: { state: 'succeeded' } }

async function startClient() {
  const harness = startApp()
  const url = await listen(harness)
  /** A proxy in front of the service that accepts another host name for itself. */
  const cutAt = async (cuts: readonly number[]) => {
    const proxy = await startCuttingProxy(url, cuts)
    harness.allowedHosts.push(new URL(proxy.url).host)
    return proxy
  }
  return { ...harness, url, cutAt, client: createClient({ url, apiKey: harness.keys.ada }) }
}

async function toArray<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const item of items) all.push(item)
  return all
}

async function* chunksOf(...texts: string[]) {
  for (const text of texts) yield new TextEncoder().encode(text)
}

const sequencesOf = (events: RunEnvelope[]) => events.map(({ sequence }) => sequence)

describe('the client', () => {
  test('drives a run from its start to its end', async () => {
    const { client, service } = await startClient()
    const run = await client.startRun({ ...RUN, workspace: { kind: 'upload' } })
    expect(run.state).toBe('waiting_upload')
    expect((await client.uploadWorkspace(run.id, chunksOf('a ', 'tar'))).state).toBe('queued')
    expect((await client.startTurn(run.id, { prompt: 'go on' })).state).toBe('queued')
    service.append(run.id, delta('hello'))
    expect((await client.readEvents(run.id, { limit: 1 })).items).toHaveLength(1)
    expect((await client.cancel(run.id)).state).toBe('cancelled')
    expect((await client.readRun(run.id)).state).toBe('cancelled')
    expect((await client.listRuns({ limit: 1 })).items[0]?.id).toBe(run.id)
    const archive = await toArray(await client.downloadWorkspace(run.id))
    expect(Buffer.concat(archive).toString()).toBe('a tar')
    expect(sequencesOf(await toArray(client.streamEvents(run.id)))).toEqual([1, 2])
  })

  test('compares, trusts, lists and forgets folders', async () => {
    const { client } = await startClient()
    const path = '/srv/a b/ü?#%&'
    expect((await client.compareSettings({ path })).path).toBe(path)
    expect((await client.trustFolder({ path, digest: null })).path).toBe(path)
    await expect(client.trustFolder({ path, digest: 'a'.repeat(64) })).rejects.toThrow(
      expect.objectContaining({ code: 'conflict' }),
    )
    expect((await client.listTrustedFolders()).items.map((folder) => folder.path)).toEqual([path])
    await client.forgetFolder({ path })
    expect((await client.listTrustedFolders()).items).toEqual([])
  })

  test('drives a sandbox and its files', async () => {
    const { client } = await startClient()
    const { id } = await client.createSandbox()
    const path = 'a b/ü?#%.bin'
    const content = new Uint8Array([0, 255, 10])
    await client.writeFile(id, { path, content })
    expect(await client.readFile(id, { path })).toEqual(content)
    expect((await client.listFiles(id)).entries.map((entry) => entry.path)).toEqual([path])
    await expect(client.writeFile(id, { path, content, create: 'exclusive' })).rejects.toThrow(
      expect.objectContaining({ code: 'conflict' }),
    )
    await client.deleteFile(id, { path })
    expect((await client.listSandboxes()).items[0]?.id).toBe(id)
    await client.destroySandbox(id)
    expect((await client.readSandbox(id)).state).toBe('succeeded')
  })

  test.for(['../secret', 'a/../../b', '.', 'a//b', '/etc/passwd', ''])(
    'refuses the path %j, which would name another route',
    async (path) => {
      const { client, service } = await startClient()
      const { id } = await client.createSandbox()
      await expect(async () => client.readFile(id, { path })).rejects.toThrow('plain path')
      await expect(async () => client.deleteFile(id, { path })).rejects.toThrow('plain path')
      expect(service.calls).toEqual(['createSandbox'])
    },
  )

  test('runs a command and yields its events alone', async () => {
    const { client } = await startClient()
    const { id } = await client.createSandbox()
    const events = await toArray(client.runCommand(id, { command: 'echo hello' }))
    expect(events.map(({ event }) => event.type)).toEqual(['command.output', 'command.exited'])
  })

  test('decides the request of a run', async () => {
    const { client, service } = await startClient()
    const { id } = await client.startRun(RUN)
    const [a = '', b = '', c = '', d = '', e = ''] = Array.from(
      { length: 5 },
      () => service.addApproval(id).requestId,
    )
    expect((await client.approveShell(id, { requestId: a })).state).toBe('approved')
    expect((await client.denyShell(id, { requestId: b, reason: 'no' })).state).toBe('denied')
    expect((await client.approveTool(id, { requestId: c, scope: 'run' })).state).toBe('approved')
    expect((await client.denyTool(id, { requestId: d })).state).toBe('denied')
    await client.answerQuestion(id, { requestId: e, answer: 'yes' })
    expect((await client.listApprovals(id)).items).toHaveLength(5)
    await expect(client.approveShell(id, { requestId: a })).rejects.toThrow(
      expect.objectContaining({ code: 'already_decided', status: 409 }),
    )
  })

  test('reads and writes the policy as an operator', async () => {
    const { url, keys, service } = await startClient()
    const operator = createClient({ url, apiKey: keys.operator })
    expect((await operator.mergePolicy({ shell_enabled: false })).shell_enabled).toBe(false)
    expect((await operator.readPolicy()).shell_enabled).toBe(false)
    expect((await operator.replacePolicy({})).shell_enabled).toBe(true)
    service.isReady = false
    expect(await operator.ready()).toMatchObject({ ready: false })
  })

  test('throws what the service refused, with every field at fault', async () => {
    const { client } = await startClient()
    const error = await client.startRun({ ...RUN, task: '' }).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(ProblemError)
    expect(error).toMatchObject({ code: 'invalid_request', status: 400, errors: [{ field: 'task' }] })
    expect((error as ProblemError).requestId).toMatch(/^req_/)
  })

  test('says that nothing listens, at once', async () => {
    const client = createClient({ url: 'http://127.0.0.1:1023', apiKey: 'k' })
    await expect(client.listRuns()).rejects.toThrow(
      /cannot be reached: nothing listens there.*agentweaver serve/,
    )
  })

  test('gives up with the reason of its signal', async () => {
    const { client } = await startClient()
    const { id } = await client.startRun(RUN)
    const stop = new AbortController()
    const events = toArray(client.streamEvents(id, { signal: stop.signal }))
    stop.abort(new Error('enough'))
    await expect(events).rejects.toThrow('enough')
    await expect(client.readRun(id, { signal: stop.signal })).rejects.toThrow('enough')
  })

  test('does not accept responses of another program as the service', async () => {
    const server = createServer((request, answer) => {
      answer.statusCode = request.url === '/api/runs' ? 200 : 404
      answer.end('{"hello":"world"}')
    }).listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await once(server, 'listening')
    const address = server.address()
    const port = typeof address === 'object' && address ? address.port : 0
    const client = createClient({ url: `http://127.0.0.1:${port}`, apiKey: 'k' })
    await expect(client.listRuns()).rejects.toThrow('same version')
    await expect(client.listSandboxes()).rejects.toThrow('Check that the URL is an Agentweaver service.')
  })
})

describe('over a line that breaks', () => {
  test('a mutation whose answer was lost happens once', async () => {
    const { cutAt, keys, service } = await startClient()
    const proxy = await cutAt([10, 10])
    const client = createClient({ url: proxy.url, apiKey: keys.ada })
    const run = await client.startRun(RUN)
    expect(service.calls).toEqual(['startRun'])
    expect([...service.runs.keys()]).toEqual([run.id])
    expect(proxy.opened).toBe(3)
  })

  test('a refusal for the moment is asked again, one for good is not', async () => {
    const { client, service } = await startClient()
    service.fail(new SandboxError('unavailable', 'starting'))
    expect((await client.startRun(RUN)).state).toBe('queued')
    service.fail(new SandboxError('too_many_runs', 'full'))
    await expect(client.startRun(RUN)).rejects.toThrow('full')
  })

  test('a stream loses and repeats nothing, wherever it breaks', async () => {
    const { client, cutAt, keys, service } = await startClient()
    const { id } = await client.startRun(RUN)
    service.append(id, delta('one'), delta('two\n\ndata: x'), delta('drei ü'), delta('four'), DONE)
    const whole = await toArray(client.streamEvents(id))
    let breaks = 0
    // The whole answer, headers included, is shorter than this; the cuts fall everywhere in it.
    for (let cut = 1; cut < 1600; cut += 97) {
      const proxy = await cutAt([cut, cut + 350])
      const broken = createClient({ url: proxy.url, apiKey: keys.ada })
      const events = broken.streamEvents(id, { onBreak: () => breaks++ })
      expect(await toArray(events), `cut after ${cut} bytes`).toEqual(whole)
    }
    expect(breaks).toBeGreaterThan(0)
  })

  test('a command that was started once is followed to its end', async () => {
    const { client, cutAt, keys, service } = await startClient()
    const { id } = await client.createSandbox()
    const proxy = await cutAt([20, 500, 400])
    const broken = createClient({ url: proxy.url, apiKey: keys.ada })
    const events = await toArray(broken.runCommand(id, { command: 'true' }))
    expect(events.map(({ event }) => event.type)).toEqual(['command.output', 'command.exited'])
    expect(service.calls.filter((call) => call === 'startCommand')).toHaveLength(1)
    expect(proxy.opened).toBeGreaterThan(1)
  })

  test('a command is answered once as a document, wherever the connection breaks', async () => {
    const { client, cutAt, keys, service } = await startClient()
    const { id } = await client.createSandbox()
    const whole = await client.execCommand(id, { command: 'true' }, { idempotencyKey: 'whole' })
    expect(whole).toMatchObject({ exitCode: 0, stdout: 'hello\n', stderr: '', refusals: [] })
    let opened = 0
    for (const cut of [1, 200, 500, 650]) {
      const proxy = await cutAt([cut, cut])
      const broken = createClient({ url: proxy.url, apiKey: keys.ada })
      const answer = await broken.execCommand(id, { command: 'true' }, { idempotencyKey: `cut-${cut}` })
      expect({ ...answer, commandId: '' }, `cut after ${cut} bytes`).toEqual({ ...whole, commandId: '' })
      opened += proxy.opened
    }
    expect(opened).toBeGreaterThan(4)
    expect(service.calls.filter((call) => call === 'startCommand')).toHaveLength(5)
  })

  test('reports a gap in the events as a defect', async () => {
    const { client, service } = await startClient()
    const { id } = await client.startRun(RUN)
    service.subscribe = async () =>
      (async function* () {
        for (const sequence of [1, 3]) yield { sequence, at: '2026-01-01T00:00:00.000Z', event: delta('x') }
      })()
    await expect(toArray(client.streamEvents(id))).rejects.toThrow('event 3 after event 1')
  })

  test('a stream of a foreign run is refused, not tried for ever', async () => {
    const { client, url, keys } = await startClient()
    const { id } = await client.startRun(RUN)
    const bob = createClient({ url, apiKey: keys.bob })
    await expect(toArray(bob.streamEvents(id))).rejects.toThrow(
      expect.objectContaining({ code: 'not_found' }),
    )
  })
})
