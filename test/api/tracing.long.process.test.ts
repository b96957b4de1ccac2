import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { startOwnService } from '../cli/own-service.ts'
import { until } from '../helpers/until.ts'

type Value = { readonly stringValue?: string; readonly intValue?: number | string }
type Attributes = readonly { readonly key: string; readonly value: Value }[]
type OtlpSpan = {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes: Attributes
  readonly status: { readonly code?: number }
}
type Exported = {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: Attributes }
    readonly scopeSpans: readonly { readonly spans: readonly OtlpSpan[] }[]
  }[]
}

const SECRET = 'ghp_0123456789abcdefghijklmnopqrstuvwxyz'
const PROMPT = 'mend the parser of tariffs'
const ARGUMENT = 'argument-of-the-command'

/** A receiver of OTLP/HTTP with JSON. */
async function aCollector(status = 200) {
  const exported: Exported[] = []
  const headers: (string | string[] | undefined)[] = []
  const server = createServer(async (request, response) => {
    headers.push(request.headers['x-team'])
    if (request.url === '/v1/traces') exported.push((await json(request)) as Exported)
    response.writeHead(status, { 'content-type': 'application/json' }).end('{}')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(async () => {
    server.closeAllConnections()
    server.close()
  })
  const spans = () =>
    exported.flatMap(({ resourceSpans }) =>
      resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans)),
    )
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { url, exported, headers, spans }
}

/** A port that closes each connection at once. */
async function aRefusingPort() {
  let connections = 0
  const server = createTcpServer((socket) => {
    connections += 1
    socket.destroy()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, connections: () => connections }
}

async function aService(env: Record<string, string>) {
  const folder = await mkdtemp(join(tmpdir(), 'aw-traces-'))
  const service = await startOwnService(folder, { OTEL_BSP_SCHEDULE_DELAY: '100', ...env })
  onTestFinished(async () => {
    await service.stop()
    await rm(folder, { recursive: true, force: true })
  })
  const say = { kind: 'say', text: `I read ${SECRET}` }
  const call = (command: string) => ({ kind: 'tool', tool: 'run_command', arguments: { command } })
  const plan = { turns: [[say, call(`echo ${ARGUMENT}`), call('exit 3')]] }
  const start = async (headers: Record<string, string> = {}) => {
    const answer = await fetch(`${service.url}/api/runs`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${service.apiKey}`,
        'content-type': 'application/json',
        ...headers,
      },
      body: JSON.stringify({
        task: PROMPT,
        workspace: { kind: 'empty' },
        agent: { kind: 'scripted', plan },
      }),
    })
    const { id } = (await answer.json()) as { id: string }
    await until('the run ends', async () => (await service.client.readRun(id)).endedAt !== undefined)
    return service.client.readRun(id)
  }
  return { ...service, start }
}

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const CLIENT_SPAN = '00f067aa0ba902b7'

test('sends one connected trace of a run, below the trace of the client, without content', async () => {
  const collector = await aCollector()
  const service = await aService({
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_EXPORTER_OTLP_HEADERS: 'x-team=blue',
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
  })

  const run = await service.start({ traceparent: `00-${TRACE}-${CLIENT_SPAN}-01` })

  const ended = () => collector.spans().some(({ name }) => name.startsWith('invoke_agent'))
  await until('the turn is exported', ended)
  const spans = collector.spans().filter(({ traceId }) => traceId === TRACE)
  const byId = new Map(spans.map((span) => [span.spanId, span]))
  const tree = spans
    .map(({ name, parentSpanId = '' }) => [name, byId.get(parentSpanId)?.name ?? parentSpanId])
    .toSorted()
  expect(tree).toEqual([
    ['POST /api/runs', CLIENT_SPAN],
    ['command', 'execute_tool run_command'],
    ['command', 'execute_tool run_command'],
    ['execute_tool run_command', 'invoke_agent scripted'],
    ['execute_tool run_command', 'invoke_agent scripted'],
    ['invoke_agent scripted', 'POST /api/runs'],
  ])
  const attributesOf = (name: string) =>
    spans
      .filter((span) => span.name === name)
      .map(({ attributes }) =>
        Object.fromEntries(
          attributes.map(({ key, value }) => [key, value.stringValue ?? Number(value.intValue)]),
        ),
      )
  expect(attributesOf('invoke_agent scripted')).toEqual([
    expect.objectContaining({ 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.conversation.id': run.id }),
  ])
  expect(attributesOf('command').map((of) => of['process.exit.code'])).toEqual([0, 3])
  for (const { startTimeUnixNano, endTimeUnixNano } of spans)
    expect(BigInt(endTimeUnixNano) >= BigInt(startTimeUnixNano)).toBe(true)

  const wire = JSON.stringify(collector.exported)
  expect(wire).toContain('deployment.environment.name')
  for (const content of [SECRET, PROMPT, ARGUMENT, service.apiKey]) expect(wire).not.toContain(content)
  expect(collector.headers).toContain('blue')
})

test('a run succeeds with a collector that fails, or that closes every connection', async () => {
  const failing = await aCollector(500)
  const refusing = await aRefusingPort()
  const asked = [() => failing.exported.length > 0, () => refusing.connections() > 0]
  for (const [index, url] of [failing.url, refusing.url].entries()) {
    const service = await aService({ OTEL_EXPORTER_OTLP_ENDPOINT: url })

    expect((await service.start()).state).toBe('succeeded')
    await until('the service has tried to send a trace', () => asked[index]?.() === true)
  }
})

test('begins a new trace for an invalid traceparent', async () => {
  const collector = await aCollector()
  const service = await aService({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url })

  await service.start({ traceparent: '00-not-a-trace' })

  const turn = () => collector.spans().find(({ name }) => name.startsWith('invoke_agent'))
  await until('the turn is exported', () => turn() !== undefined)
  const root = collector.spans().find(({ name }) => name === 'POST /api/runs')
  expect(root?.parentSpanId).toBeUndefined()
  expect(turn()?.traceId).toBe(root?.traceId)
})
