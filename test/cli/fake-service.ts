import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import type { Approval, Run } from '../../contracts/api.ts'
import { ERROR_STATUS, type ErrorCode } from '../../contracts/errors.ts'
import { RunEnvelope, type RunEvent } from '../../contracts/events.ts'

export const RUN_ID = `run_${'0'.repeat(31)}1`
export const FAKE_KEY = 'fake-key'

type Answer = { readonly status?: number; readonly body?: unknown }
export type FakeRequest = {
  readonly method: string
  readonly path: string
  readonly body: unknown
  readonly query: URLSearchParams
}

/** A fake API with one run. The test writes the run's events, and every request is recorded. */
export interface FakeService extends AsyncDisposable {
  readonly url: string
  readonly requests: FakeRequest[]
  /** Appends events to the run and sends them to the open streams. */
  publish(...events: RunEvent[]): void
  /** Handles requests that the fake does not know. */
  answer: (request: FakeRequest) => Answer | undefined
  /** Whether a stream of the run is open. */
  readonly isFollowed: () => boolean
  /** Closes the stream connections without ending the run. */
  breakStreams(): void
  approvals: Approval[]
}

export const aRun = (change: Partial<Run> = {}): Run => ({
  id: RUN_ID,
  kind: 'agent',
  owner: 'me',
  state: 'running',
  task: 'fix it',
  workspace: { kind: 'empty' },
  agent: { kind: 'scripted' },
  labels: {},
  interactive: false,
  generation: 1,
  lastSequence: 0,
  createdAt: '2026-01-01T00:00:00.000Z',
  ...change,
})

export const refusal = (code: ErrorCode, detail: string): Answer => ({
  status: ERROR_STATUS[code],
  body: { title: code, status: ERROR_STATUS[code], code, detail },
})

async function toFakeRequest(request: IncomingMessage): Promise<FakeRequest> {
  const url = new URL(request.url ?? '/', 'http://fake')
  const isJson = request.headers['content-type'] === 'application/json'
  return {
    method: request.method ?? 'GET',
    path: url.pathname,
    query: url.searchParams,
    body: isJson ? await json(request) : undefined,
  }
}

export async function startFakeService(): Promise<FakeService> {
  const events: RunEnvelope[] = []
  const streams = new Map<ServerResponse, number>()
  const requests: FakeRequest[] = []
  const push = (response: ServerResponse, cursor: number) => {
    const fresh = events.filter(({ sequence }) => sequence > cursor)
    for (const { sequence, ...rest } of fresh)
      response.write(
        `id: ${sequence}\nevent: ${rest.event.type}\ndata: ${JSON.stringify({ sequence, ...rest })}\n\n`,
      )
    streams.set(response, events.length)
  }
  const stream = (request: IncomingMessage, response: ServerResponse) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
    push(response, Number(request.headers['last-event-id'] ?? 0))
    response.on('close', () => streams.delete(response))
  }
  const fake: FakeService = {
    url: '',
    requests,
    approvals: [],
    answer: () => undefined,
    publish(...added) {
      for (const event of added)
        events.push(RunEnvelope.parse({ sequence: events.length + 1, at: new Date().toISOString(), event }))
      for (const [response, cursor] of streams) push(response, cursor)
    },
    isFollowed: () => streams.size > 0,
    breakStreams() {
      for (const response of streams.keys()) response.destroy()
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
    },
  }
  const runPath = `/api/runs/${RUN_ID}`
  const known: Readonly<Record<string, (request: FakeRequest) => Answer>> = {
    'GET /healthz': () => ({ body: { ok: true } }),
    'GET /api/sign-in': () => ({ body: {} }),
    'POST /api/runs': () => ({ status: 202, body: aRun({ state: 'queued' }) }),
    'GET /api/runs': () => ({ body: { items: [aRun()] } }),
    'GET /api/models': () => ({
      body: { items: [{ kind: 'copilot', model: 'gpt-5', usable: true, default: true }] },
    }),
    'GET /api/me': () => ({ body: { owner: 'ada', role: 'user' } }),
    [`GET ${runPath}`]: () => ({ body: aRun({ lastSequence: events.length }) }),
    [`GET ${runPath}/approvals`]: () => ({ body: { items: fake.approvals } }),
    [`GET ${runPath}/events`]: ({ query }) => ({
      body: { items: events.filter(({ sequence }) => sequence > Number(query.get('after') ?? 0)) },
    }),
  }
  const respond = (request: FakeRequest): Answer =>
    fake.answer(request) ??
    known[`${request.method} ${request.path}`]?.(request) ??
    refusal('not_found', 'There is no such run.')
  const handle = async (request: IncomingMessage, response: ServerResponse) => {
    const asked = await toFakeRequest(request)
    const isOpen = asked.path === '/healthz' || asked.path === '/api/sign-in'
    const isLoggedIn = request.headers.authorization === `Bearer ${FAKE_KEY}` || isOpen
    if (isLoggedIn && asked.path === `${runPath}/stream`) return stream(request, response)
    requests.push(asked)
    const { status = 200, body } = isLoggedIn
      ? respond(asked)
      : refusal('unauthenticated', 'The key is not known.')
    const type = status < 400 ? 'application/json' : 'application/problem+json'
    response.writeHead(status, { 'content-type': type }).end(body && JSON.stringify(body))
  }
  const server = createServer((request, response) => void handle(request, response))
  const { promise, resolve } = Promise.withResolvers<void>()
  server.listen(0, '127.0.0.1', resolve)
  await promise
  return Object.assign(fake, { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` })
}
