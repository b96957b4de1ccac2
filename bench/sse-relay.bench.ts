import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, get, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { RunEvent } from '../contracts/events.ts'
import { SandboxSettings } from '../contracts/policy.ts'
import { buildApp } from '../runtime/api/app.ts'
import { generateApiKey, hashApiKey } from '../runtime/api/http/api-key.ts'
import { encodeEvent } from '../runtime/api/http/sse.ts'
import { subscribeToRun } from '../runtime/api/runs/subscribe.ts'
import { silentLog } from '../runtime/kit/log.ts'
import { openStore } from '../runtime/store/open-store.ts'
import type { Store } from '../runtime/store/store.ts'
import { MemoryService } from '../test/api/memory-service.ts'
import { type Bench, figure } from './harness.ts'

const EVENTS = 300
const AT = new Date(0).toISOString()
const EVENT: RunEvent = { type: 'agent.message.delta', data: { messageId: 'm', text: 'x'.repeat(200) } }
const RUN = `run_${'0'.repeat(32)}`

/** Reads a stream of events; `next` resolves when a frame that was not there before has come. */
async function openReader(url: string, headers: Record<string, string> = {}) {
  const request = get(url, { headers })
  const [answer] = await once(request, 'response')
  let frames = 0
  let waiting: (() => void) | undefined
  answer.setEncoding('utf8').on('data', (chunk: string) => {
    frames += chunk.match(/^data: /gm)?.length ?? 0
    waiting?.()
  })
  const next = async (count: number) => {
    while (frames < count) {
      await new Promise<void>((resolve) => {
        waiting = resolve
      })
    }
  }
  return { next, close: () => request.destroy() }
}

/** Milliseconds from the emission of an event until its reader has it, one event after the other. */
async function timeEvents(emit: () => unknown, next: (count: number) => Promise<void>): Promise<number[]> {
  const samples: number[] = []
  for (let count = 1; count <= EVENTS; count++) {
    const start = performance.now()
    await emit()
    await next(count)
    samples.push(performance.now() - start)
  }
  return samples
}

async function timeBareServer(): Promise<number[]> {
  let reader: ServerResponse | undefined
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
    reader = response
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  const { next, close } = await openReader(`http://127.0.0.1:${port}`)
  let sequence = 0
  const samples = await timeEvents(
    () => reader?.write(encodeEvent({ sequence: ++sequence, at: AT, event: EVENT })),
    next,
  )
  close()
  server.close()
  return samples
}

async function timeService(store: Store): Promise<number[]> {
  const key = generateApiKey()
  await store.insertApiKey({ id: 'k', hash: hashApiKey(key), owner: 'ada', role: 'user', createdAt: AT })
  await store.transaction((tx) => tx.insertRun(newRun()))
  const service = new MemoryService()
  service.subscribe = async (_caller, id, from) => subscribeToRun(store, id, from)
  const app = buildApp({
    service,
    store,
    log: silentLog,
    now: () => new Date(),
    started: Promise.resolve(),
    rateLimitPerMinute: 1000,
    loopbackOnly: true,
  })
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  const { next, close } = await openReader(`${url}/api/runs/${RUN}/stream`, {
    authorization: `Bearer ${key}`,
  })
  const samples = await timeEvents(
    () => store.transaction((tx) => tx.appendEvents(RUN, [{ event: EVENT }])),
    next,
  )
  close()
  await app.close()
  return samples
}

const newRun = () => ({
  id: RUN,
  kind: 'agent' as const,
  owner: 'ada',
  state: 'running' as const,
  task: 'bench',
  workspace: { kind: 'empty' as const },
  agent: { kind: 'scripted' },
  labels: {},
  interactive: false,
  agentSpec: {},
  settings: SandboxSettings.parse({}),
  policyVersion: 'bench',
  keyId: 'bench',
})

export const bench: Bench = {
  name: 'sse-relay',
  async run() {
    const folder = await mkdtemp(join(tmpdir(), 'agentweaver-bench-'))
    const store = await openStore({ kind: 'sqlite', file: join(folder, 'store.db') }, { log: silentLog })
    try {
      const samples = { baseline: await timeBareServer(), value: await timeService(store) }
      const note =
        'from an event at the API to its reader, with its durable commit; baseline: a bare server that writes the frame'
      return [
        figure({ name: 'sse-relay p50', unit: 'ms', measure: 'added', bar: 2, samples, note }),
        figure({ name: 'sse-relay p99', unit: 'ms', measure: 'added', bar: 10, percentile: 99, samples }),
      ]
    } finally {
      await store.close()
      await rm(folder, { recursive: true, force: true })
    }
  },
}
