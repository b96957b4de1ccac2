import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type AgentHostClient, createAgentHostClient } from '../../runtime/agent-host-client/client.ts'

const trustful = { verify: async () => undefined }
const soon = () => AbortSignal.timeout(10_000)

/** A client of something that answers every request in one way. */
async function answering(answer: (response: ServerResponse) => void): Promise<AgentHostClient> {
  const server = createServer((request, response) => {
    request.resume().on('end', () => answer(response))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const client = createAgentHostClient({ baseUrl: `http://127.0.0.1:${port}`, guard: trustful }, 'bearer')
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

describe.each(Object.keys(USES))('a sandbox that breaks in the middle: %s', (name) => {
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
  ])('is lost: %s', async (_when, answer) => {
    const client = await answering(answer)

    await expect(use(client)).rejects.toMatchObject({ code: 'sandbox_lost' })
  })
})

const problem = (code: string, status: number) => (response: ServerResponse) =>
  response
    .writeHead(status, { 'content-type': 'application/problem+json' })
    .end(JSON.stringify({ title: 'Error', status, code, detail: 'its words' }))

it('tells a refused turn by the code of the refusal', async () => {
  const client = await answering(problem('not_configured', 503))

  await expect(USES['start a turn']!(client)).rejects.toMatchObject({ code: 'not_configured' })
})

it('tells a toolbox that was lost in the setup as that, and another failure as its refusal', async () => {
  const lost = await answering(problem('sandbox_lost', 422))
  const failed = await answering(problem('configure_failed', 422))

  await expect(USES['configure']!(lost)).rejects.toMatchObject({ code: 'sandbox_lost' })
  await expect(USES['configure']!(failed)).rejects.toMatchObject({ code: 'configure_rejected' })
})

it('takes a 409 that names no run for senseless', async () => {
  const client = await answering(problem('conflict', 409))

  await expect(USES['configure']!(client)).rejects.toMatchObject({ code: 'sandbox_lost' })
})

it('tells a turn whose answer is of another form as not taken', async () => {
  const client = await answering((response) =>
    response.writeHead(200, { 'content-type': 'text/plain' }).end('hello'),
  )

  await expect(USES['start a turn']!(client)).rejects.toMatchObject({ code: 'agent_failed' })
})

it.each([200, 500])('does not listen to an answer without end (%i)', async (status) => {
  const piece = 'x'.repeat(1_048_576)
  let sent = 0
  const client = await answering((response) => {
    const pour = () => {
      while (!response.destroyed) {
        sent += 1
        if (!response.write(piece)) return
      }
    }
    response.writeHead(status, { 'content-type': 'application/json' })
    response.on('drain', pour)
    pour()
  })

  await expect(client.decide({ ackedThrough: 0, decisions: [] }, soon())).rejects.toMatchObject({
    code: 'sandbox_lost',
    message: 'the AgentHost sent an endless answer',
  })
  expect(sent).toBeLessThan(64)
})

it('tells a deadline of ours as one', async () => {
  const client = await answering(() => undefined)

  await expect(client.health(AbortSignal.timeout(50))).rejects.toMatchObject({ code: 'deadline_exceeded' })
})

it('leaves a reason of the caller as it is', async () => {
  const client = await answering(() => undefined)
  const reason = new Error('the caller left')

  await expect(client.health(AbortSignal.abort(reason))).rejects.toBe(reason)
})
