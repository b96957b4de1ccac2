import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import type { Store } from '../runtime/store/store.ts'
import { type Bench, type Figure, figure, timed } from './harness.ts'
import { residentBytes } from './subjects/process.ts'
import { seededRun, seedStore } from './subjects/seeded-runs.ts'
import { startService } from './subjects/service.ts'

const READERS = 500
const EVENTS = 100_000
const BAR_MS = 250
const REQUESTS = 200
const SPACING_MS = 25

/** The service while many readers have opened the stream of a long run and read nothing. */
export const bench: Bench = {
  name: 'sse-readers',
  run: async (): Promise<readonly Figure[]> => {
    await using service = await startService({
      warm: 0,
      settings: { AGENTWEAVER_MAX_STREAMS_PER_KEY: String(READERS) },
      seed: (file) => seedStore(file, fill),
    })
    const baseline = await health(service.url)
    const before = residentBytes(service.pid)
    const readers = await Promise.all(Array.from({ length: READERS }, () => openReader(service)))
    const value = await health(service.url)
    const after = residentBytes(service.pid)
    for (const reader of readers) reader.destroy()
    return [
      figure({
        name: `health with ${READERS} silent readers, p99`,
        unit: 'ms',
        measure: 'absolute',
        bar: BAR_MS,
        percentile: 99,
        samples: { baseline, value },
        note: `each reader has opened the stream of a run with ${EVENTS} events`,
      }),
      figure({
        name: `memory of ${READERS} silent readers`,
        unit: 'bytes',
        measure: 'added',
        bar: Number.POSITIVE_INFINITY,
        samples: { baseline: [before], value: [after] },
      }),
    ]
  },
}

const RUN = seededRun(1, { owner: 'root', interactive: false })

async function fill(store: Store): Promise<void> {
  const event = { type: 'agent.message', data: { messageId: 'm', text: 'word '.repeat(40) } } as const
  await store.transaction((tx) => tx.insertRun(RUN))
  for (let done = 0; done < EVENTS; done += 10_000)
    await store.transaction((tx) =>
      tx.appendEvents(
        RUN.id,
        Array.from({ length: 10_000 }, () => ({ event })),
      ),
    )
  await store.transaction(async (tx) => {
    await tx.changeRunState(RUN.id, { from: 'queued', to: 'failed' })
    await tx.changeRun(RUN.id, { endedAt: new Date().toISOString() })
  })
}

/** Resolves when the response has begun. Its body is never read. */
async function openReader({ url, apiKey }: { url: string; apiKey: string }): Promise<ClientRequest> {
  const headers = { authorization: `Bearer ${apiKey}`, accept: 'text/event-stream' }
  const sent = request(`${url}/api/runs/${RUN.id}/stream`, { headers, agent: false })
  sent.on('error', () => undefined)
  sent.end()
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  if (response.statusCode !== 200) throw new Error(`a reader was refused: ${response.statusCode}`)
  return sent
}

async function health(url: string): Promise<number[]> {
  const samples: number[] = []
  for (let number = 0; number < REQUESTS; number++) {
    samples.push(await timed(() => fetch(`${url}/healthz`).then((response) => response.text())))
    await delay(SPACING_MS)
  }
  return samples
}
