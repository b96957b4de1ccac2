import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { inspect } from 'node:util'
import { errors } from 'undici'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { FILE_LIMITS } from '../../contracts/limits.ts'
import { type AgentHostClient, createAgentHostClient } from '../../runtime/agent-host-client/client.ts'
import { MAX_ANSWER_BYTES } from '../../runtime/agent-host-client/connection.ts'
import type { ConnectionGuard } from '../../runtime/agent-host-client/connection-guard.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'

const trustful = { verify: async () => undefined }
const soon = () => AbortSignal.timeout(120_000)

/** A client of a server that sends the same response to every request. */
async function answering(
  answer: (response: ServerResponse) => void,
  guard: ConnectionGuard = trustful,
): Promise<AgentHostClient> {
  const server = createServer((request, response) => {
    request.resume().on('end', () => answer(response))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const client = createAgentHostClient({ baseUrl: `http://127.0.0.1:${port}`, guard }, 'bearer')
  onTestFinished(async () => {
    await client.close()
    server.closeAllConnections()
    server.close()
  })
  return client
}

const USES: Readonly<Record<string, (client: AgentHostClient) => Promise<unknown>>> = {
  configure: (client) =>
    client.configure({ runId: 'r', generation: 1, ticket: 't', body: Buffer.from('{}'), signal: soon() }),
  health: (client) => client.health(soon()),
  'start a turn': (client) => client.turns.start({ id: 't1', prompt: 'go' }, soon()),
  decide: (client) => client.decide({ ackedThrough: 0, decisions: [] }, soon()),
  'start a command': (client) =>
    client.startCommand('c1', { command: 'true' } as Parameters<AgentHostClient['startCommand']>[1], soon()),
  'read a file': (client) => client.file({ op: 'read', path: 'a' }, new Uint8Array(), soon()),
  'read the workspace': async (client) => Array.fromAsync(await client.getWorkspace(soon())),
  'read the session': async (client) => Array.fromAsync(await client.getSession(soon())),
}

const type = (name: string): string => (name === 'start a turn' ? 'text/event-stream' : 'application/json')

describe.each(Object.keys(USES))('a sandbox whose connection breaks: %s', (name) => {
  const use = USES[name]!

  it.each([
    ['before it answers', (response: ServerResponse) => response.destroy()],
    [
      'after the head of its answer',
      (response: ServerResponse) => {
        response.writeHead(200, { 'content-type': type(name) }).flushHeaders()
        setImmediate(() => response.destroy())
      },
    ],
    [
      'in the middle of its answer',
      (response: ServerResponse) => {
        response.writeHead(200, { 'content-type': type(name), 'content-length': '500' })
        response.write('data: {"ta', () => response.destroy())
      },
    ],
    [
      'in the middle of a refusal',
      (response: ServerResponse) => {
        response.writeHead(502, { 'content-type': 'application/problem+json', 'content-length': '500' })
        response.write('{"code":"int', () => response.destroy())
      },
    ],
    [
      'with a refusal of its server, which closes',
      (response: ServerResponse) =>
        response
          .writeHead(503, { 'content-type': 'application/problem+json' })
          .end('{"error":"Service Unavailable","statusCode":503}'),
    ],
  ])('fails with sandbox_lost if it breaks %s', async (_when, answer) => {
    const client = await answering(answer)

    await expect(use(client)).rejects.toMatchObject({ code: 'sandbox_lost' })
  })
})

const sendJson = (response: ServerResponse, status: number, body: unknown) =>
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))

const PIECE = Buffer.alloc(65_536, 'x')

/** Writes until the connection closes. Returns the number of bytes. */
async function flood(response: ServerResponse, head: readonly [number, string]): Promise<number> {
  response.writeHead(head[0], { 'content-type': head[1] })
  let bytes = 0
  const left = new AbortController()
  response.once('close', () => left.abort())
  for (; !response.destroyed; bytes += PIECE.length) {
    if (!response.write(PIECE)) await once(response, 'drain', left).catch(() => undefined)
  }
  return bytes
}

const HELD = Object.keys(USES).filter((name) => !['read the workspace', 'read the session'].includes(name))

describe.each(HELD)('a sandbox that sends an endless response: %s', (name) => {
  it.each([
    ['an answer', [200, type(name)]],
    ['a file', [200, 'application/octet-stream']],
    ['a refusal', [502, 'application/problem+json']],
  ] as const)('is cut off while it sends %s', async (_what, head) => {
    const flooded = Promise.withResolvers<number>()
    const client = await answering((response) => flooded.resolve(flood(response, head)))

    await expect(USES[name]!(client)).rejects.toBeInstanceOf(SandboxError)
    await client.close()
    // The buffers of both sides are sent as well.
    expect(await flooded.promise).toBeLessThan(MAX_ANSWER_BYTES + 33_554_432)
  })
})

const strangeKeys = Object.fromEntries(Array.from({ length: 10_000 }, (_, at) => [`key${at}`, at]))

it.each<[string, (response: ServerResponse) => void, (client: AgentHostClient) => Promise<unknown>]>([
  ['answer', (response) => sendJson(response, 200, { ok: true, ...strangeKeys }), USES['read a file']!],
  ['refusal', (response) => sendJson(response, 502, strangeKeys), USES['decide']!],
  [
    'event',
    (response) =>
      response
        .writeHead(200, { 'content-type': 'text/event-stream' })
        .write(`data: ${JSON.stringify({ sequence: 1, ...strangeKeys })}\n\n`),
    (client) => Array.fromAsync(client.events(0, soon())),
  ],
])('reports a long malformed %s in a short error', async (_what, answer, use) => {
  const client = await answering(answer)

  const failure = await use(client).catch((error: SandboxError) => error)
  expect(failure).toMatchObject({ code: 'sandbox_lost' })
  expect(inspect(failure, { depth: null, maxStringLength: null }).length).toBeLessThan(5000)
})

it('accepts a listing of the maximum size', async () => {
  const path = '\u0001'.repeat(FILE_LIMITS.maxPathBytes)
  const entry = { path, type: 'file', size: 1, mtimeMs: 0, mode: 0o644 }
  const answer = JSON.stringify({ ok: true, entries: Array(FILE_LIMITS.listPage).fill(entry) })
  const client = await answering((response) =>
    response.writeHead(200, { 'content-type': 'application/json' }).end(answer),
  )

  const { result } = await client.file({ op: 'list', path: '', limit: 1000 }, new Uint8Array(), soon())
  expect(Buffer.byteLength(answer)).toBeGreaterThan(24_000_000)
  expect(result).toMatchObject({ ok: true })
})

const problem = (code: string, status: number) => (response: ServerResponse) =>
  response
    .writeHead(status, { 'content-type': 'application/problem+json' })
    .end(JSON.stringify({ title: 'Error', status, code, detail: 'its words' }))

it('reports a refused turn with the code of the refusal', async () => {
  const client = await answering(problem('not_configured', 503))

  await expect(USES['start a turn']!(client)).rejects.toMatchObject({ code: 'not_configured' })
})

it('reports a toolbox that was lost during the setup as sandbox_lost, and any other failure as configure_rejected', async () => {
  const lost = await answering(problem('sandbox_lost', 422))
  const failed = await answering(problem('configure_failed', 422))

  await expect(USES['configure']!(lost)).rejects.toMatchObject({ code: 'sandbox_lost' })
  await expect(USES['configure']!(failed)).rejects.toMatchObject({ code: 'configure_rejected' })
})

it('fails with sandbox_lost on a 409 that names no run', async () => {
  const client = await answering(problem('conflict', 409))

  await expect(USES['configure']!(client)).rejects.toMatchObject({ code: 'sandbox_lost' })
})

it('fails with agent_failed if the response to a turn has another format', async () => {
  const client = await answering((response) =>
    response.writeHead(200, { 'content-type': 'text/plain' }).end('hello'),
  )

  await expect(USES['start a turn']!(client)).rejects.toMatchObject({ code: 'agent_failed' })
})

it.each([
  ['is not JSON', 'x\ndata: {"level":"info","msg":"forged"}'],
  ['is not A2A', '{"task":{"history":[null]}}'],
  ['is an error that is not JSON', 'x', 'error'],
])(
  'writes nothing to standard error if the response to a turn %s',
  async (_what, data, event = 'message') => {
    const said = vi.spyOn(console, 'error').mockImplementation(() => undefined)
    onTestFinished(() => said.mockRestore())
    const client = await answering((response) =>
      response
        .writeHead(200, { 'content-type': 'text/event-stream' })
        .end(`event: ${event}\ndata: ${data}\n\n`),
    )

    await expect(USES['start a turn']!(client)).rejects.toMatchObject({ code: 'sandbox_lost' })
    expect(said).not.toHaveBeenCalled()
  },
)

it('reports a timeout of the client as deadline_exceeded', async () => {
  const client = await answering(() => undefined)

  await expect(client.health(AbortSignal.timeout(50))).rejects.toMatchObject({ code: 'deadline_exceeded' })
})

it('throws the abort reason of the caller unchanged', async () => {
  const client = await answering(() => undefined)
  const reason = new Error('the caller left')

  await expect(client.health(AbortSignal.abort(reason))).rejects.toBe(reason)
})

const TIMED_OUT = {
  verify: async () => {
    throw new errors.ConnectTimeoutError('attempted address: 127.0.0.1:1023')
  },
}

describe.each([
  ['refuses', { baseUrl: 'http://127.0.0.1:1023', guard: trustful }, 'connect ECONNREFUSED'],
  ['is not there', { socketPath: '/nowhere/agent-host.sock' }, 'connect ENOENT'],
])('a sandbox whose address %s', (_how, address, said) => {
  it('is reported without the address, which only the cause contains', async () => {
    const client = createAgentHostClient(address, 'bearer')
    onTestFinished(() => client.close())

    const error = await client.health(soon()).catch((thrown: unknown) => thrown)

    expect(error).toMatchObject({ code: 'sandbox_lost', message: `AgentHost cannot be reached: ${said}` })
    expect(inspect(error)).toMatch(/127\.0\.0\.1:1023|\/nowhere\//)
  })
})

it('reports a connection timeout without the address', async () => {
  const client = await answering((response) => response.end('{}'), TIMED_OUT)

  const error = await client.health(soon()).catch((thrown: unknown) => thrown)

  expect(error).toMatchObject({ code: 'sandbox_lost', message: expect.stringMatching(/took too long$/) })
  expect(inspect(error)).toContain('127.0.0.1:1023')
})
