import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { EventSource } from 'eventsource'
import fc from 'fast-check'
import { describe, expect, onTestFinished, test } from 'vitest'
import { RunEnvelope, type RunEvent } from '../../contracts/events.ts'
import { generateApiKey } from '../../runtime/api/http/api-key.ts'
import { encodeEvent, withHeartbeat } from '../../runtime/api/http/sse.ts'
import { until } from '../helpers/until.ts'
import { bearer, type Harness, listen, RUN, startApp } from './harness.ts'

const delta = (text: string): RunEvent => ({ type: 'agent.message.delta', data: { messageId: 'm', text } })
const DONE: RunEvent = { type: 'done', data: { state: 'succeeded' } }

async function startRun({ app, keys }: Harness): Promise<string> {
  const answer = await app.inject({ method: 'POST', url: '/api/runs', headers: bearer(keys.ada), body: RUN })
  return answer.json().id
}

type Frame = { id?: string; event?: string; data?: string; comment?: string }
const framesOf = (text: string): Frame[] =>
  text
    .split('\n\n')
    .filter(Boolean)
    .map((frame) =>
      Object.fromEntries(
        frame.split('\n').map((line) => {
          const [name = '', ...value] = line.split(': ')
          return [name || 'comment', value.join(': ')]
        }),
      ),
    )
const sequencesOf = (text: string) => framesOf(text).flatMap(({ id }) => (id ? [Number(id)] : []))

/** Opens the stream over a real connection. */
async function open(
  url: string,
  key: string,
  headers: Record<string, string> = {},
): Promise<IncomingMessage> {
  const request = get(url, { headers: { ...bearer(key), ...headers } })
  onTestFinished(() => void request.destroy())
  const [answer] = await once(request, 'response')
  return answer
}

async function textOf(stream: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of stream.setEncoding('utf8')) text += chunk
  return text
}

describe('the stream of a run', () => {
  test('sends each event with its sequence, type and envelope, and ends after done', async () => {
    const harness = startApp()
    const id = await startRun(harness)
    harness.service.append(id, delta('a\r\nb\n\nid: 9'), DONE)
    const answer = await harness.app.inject({
      url: `/api/runs/${id}/stream`,
      headers: bearer(harness.keys.ada),
    })
    // then
    expect(answer.headers['content-type']).toContain('text/event-stream')
    const [retry, first, second, ...more] = framesOf(answer.body)
    expect(retry).toEqual({ retry: '1000' })
    expect([first?.id, first?.event]).toEqual(['1', 'agent.message.delta'])
    expect(RunEnvelope.parse(JSON.parse(first?.data ?? '')).event).toEqual(delta('a\r\nb\n\nid: 9'))
    expect([second?.id, second?.event]).toEqual(['2', 'done'])
    expect(more).toEqual([])
  })

  test('sends an event while the run continues', async () => {
    const harness = startApp()
    const url = await listen(harness)
    const id = await startRun(harness)
    const stream = await open(`${url}/api/runs/${id}/stream`, harness.keys.ada)
    const text = textOf(stream)
    const seen: string[] = []
    stream.on('data', (chunk) => seen.push(String(chunk)))
    // when
    harness.service.append(id, delta('now'))
    await expect.poll(() => seen.join('')).toContain('now')
    harness.service.append(id, DONE)
    // then
    expect(sequencesOf(await text)).toEqual([1, 2])
  })

  test('continues after the last event of the reader, without gaps or duplicates', async () => {
    const harness = startApp()
    const id = await startRun(harness)
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.string({ unit: 'binary', maxLength: 20 }), { maxLength: 12 }),
        async (texts) => {
          const runId = await startRun(harness)
          harness.service.append(runId, ...texts.map(delta), DONE)
          const all = Array.from({ length: texts.length + 1 }, (_, index) => index + 1)
          for (const cut of [0, ...all]) {
            const read = async (url: string, headers = {}) => {
              const answer = await harness.app.inject({
                url,
                headers: { ...bearer(harness.keys.ada), ...headers },
              })
              return sequencesOf(answer.body)
            }
            const url = `/api/runs/${runId}/stream`
            expect(await read(url, { 'last-event-id': String(cut) })).toEqual(all.slice(cut))
            expect(await read(`${url}?after=${cut}`)).toEqual(all.slice(cut))
            expect(await read(`${url}?after=0`, { 'last-event-id': String(cut) })).toEqual(all.slice(cut))
          }
        },
      ),
      { numRuns: 25 },
    )
    expect(harness.service.runs.has(id)).toBe(true)
  })

  test('returns 204 to a reader that has received the last event of an ended run', async () => {
    const harness = startApp()
    const id = await startRun(harness)
    harness.service.append(id, delta('a'), DONE)
    const resume = (after: number) =>
      harness.app.inject({
        url: `/api/runs/${id}/stream`,
        headers: { ...bearer(harness.keys.ada), 'last-event-id': String(after) },
      })

    const statuses = [
      (await resume(1)).statusCode,
      (await resume(2)).statusCode,
      (await resume(99)).statusCode,
    ]

    expect(statuses).toEqual([200, 204, 204])
  })

  test('ends for an `EventSource`, which reconnects after `done` with the last event', async () => {
    const harness = startApp()
    const url = await listen(harness)
    const id = await startRun(harness)
    harness.service.append(id, delta('a'), DONE)
    const requests: (string | undefined)[] = []
    const source = new EventSource(`${url}/api/runs/${id}/stream`, {
      fetch: async (target, init) => {
        requests.push(new Headers(init.headers).get('last-event-id') ?? undefined)
        return fetch(target, { ...init, headers: { ...init.headers, ...bearer(harness.keys.ada) } })
      },
    })
    onTestFinished(() => source.close())
    const types: string[] = []
    for (const type of ['agent.message.delta', 'done']) source.addEventListener(type, () => types.push(type))

    await until('the source stays away', () => source.readyState === EventSource.CLOSED, 60_000)

    expect(types).toEqual(['agent.message.delta', 'done'])
    expect(requests).toEqual([undefined, '2'])
  })

  test('is limited for all keys of an owner and in total, and a rejected command does not run', async () => {
    const harness = startApp({ streams: { perKey: 2, inAll: 3 } })
    const url = await listen(harness)
    const id = await startRun(harness)
    const [ada, operator] = [harness.keys.ada, harness.keys.operator]
    const stream = `${url}/api/runs/${id}/stream`
    const first = await open(stream, ada)
    await open(stream, ada)

    const third = await open(stream, harness.store.addKey(generateApiKey(), 'ada'))
    const command = await harness.app.inject({
      method: 'POST',
      url: `/api/runs/${id}/commands`,
      headers: bearer(ada),
      body: { command: 'true' },
    })
    const ofAnother = await open(stream, operator)
    const fourth = await open(stream, operator)

    expect([third.statusCode, command.statusCode, ofAnother.statusCode, fourth.statusCode]).toEqual([
      429, 429, 200, 429,
    ])
    expect(third.headers['retry-after']).toBe('10')
    expect(command.json().code).toBe('too_many_streams')
    expect(harness.service.calls).not.toContain('startCommand')
    // and a reader that disconnects frees a slot
    first.destroy()
    await until('there is room again', async () => (await open(stream, ada)).statusCode === 200)
  })

  test.for(['x', '-1', '1.5', '', '1e3', '99999999999999999999'])(
    'rejects %j as a sequence',
    async (cursor) => {
      const harness = startApp()
      const url = `/api/runs/${await startRun(harness)}/stream`
      const headers = bearer(harness.keys.ada)
      const byQuery = await harness.app.inject({ url: `${url}?after=${cursor}`, headers })
      expect(byQuery.statusCode).toBe(400)
      expect(byQuery.json().errors[0].field).toBe('after')
      if (cursor === '') return
      const byHeader = await harness.app.inject({ url, headers: { ...headers, 'last-event-id': cursor } })
      expect(byHeader.json().errors[0].field).toBe('last-event-id')
    },
  )

  test('stops pulling events when its reader stops reading, and sends all of them in the end', async () => {
    const harness = startApp()
    const url = await listen(harness)
    const id = await startRun(harness)
    const events = 400
    const big = 'x'.repeat(65_536)
    harness.service.append(id, ...Array.from({ length: events }, () => delta(big)), DONE)
    let pulled = 0
    const subscribe = harness.service.subscribe.bind(harness.service)
    harness.service.subscribe = async (...args) => {
      const source = await subscribe(...args)
      return (async function* () {
        for await (const envelope of source ?? []) {
          pulled++
          yield envelope
        }
      })()
    }
    // when the reader reads nothing
    const stream = await open(`${url}/api/runs/${id}/stream`, harness.keys.ada)
    stream.pause()
    let before = -1
    const isStill = () => {
      const known = before
      before = pulled
      return pulled === known && pulled > 0
    }
    await expect.poll(isStill, { interval: 200 }).toBe(true)
    // then most of 25 MiB is not in memory
    expect(pulled).toBeLessThan(events / 2)
    // and nothing is lost
    expect(sequencesOf(await textOf(stream))).toEqual(
      Array.from({ length: events + 1 }, (_, index) => index + 1),
    )
  })

  test('is released when its reader disconnects', async () => {
    const harness = startApp()
    const url = await listen(harness)
    const id = await startRun(harness)
    let ended = false
    const subscribe = harness.service.subscribe.bind(harness.service)
    harness.service.subscribe = async (caller, runId, from) => {
      from.signal.addEventListener('abort', () => {
        ended = true
      })
      return subscribe(caller, runId, from)
    }
    const stream = await open(`${url}/api/runs/${id}/stream`, harness.keys.ada)
    stream.destroy()
    await expect.poll(() => ended).toBe(true)
  })

  test('ends when the service stops, after the last events of the run', async () => {
    const harness = startApp()
    const url = await listen(harness)
    const [ended, open1] = [await startRun(harness), await startRun(harness)]
    harness.service.close = async () => harness.service.append(ended, DONE)
    const streams = await Promise.all(
      [ended, open1].map((id) => open(`${url}/api/runs/${id}/stream`, harness.keys.ada)),
    )
    const texts = streams.map(textOf)
    // when
    await harness.app.close()
    // then
    const [endedText = '', openText = ''] = await Promise.all(texts)
    expect(framesOf(endedText).at(-1)?.event).toBe('done')
    expect(openText).toBe('retry: 1000\n\n')
  })

  test('is cut, so that its reader reconnects, if the events cannot be read', async () => {
    const harness = startApp()
    const url = await listen(harness)
    const id = await startRun(harness)
    harness.service.subscribe = async () =>
      (async function* () {
        yield { sequence: 1, at: '2026-01-01T00:00:00.000Z', event: delta('a') }
        throw new Error('the store went away')
      })()
    const stream = await open(`${url}/api/runs/${id}/stream`, harness.keys.ada)
    await expect(textOf(stream)).rejects.toThrow('aborted')
    await expect.poll(() => harness.lines.join('\n')).toContain('the store went away')
  })
})

test('events are read in pages, each with the start of the next one', async () => {
  const harness = startApp()
  const id = await startRun(harness)
  harness.service.append(id, delta('1'), delta('2'), delta('3'))
  const read = async (query: string) => {
    const url = `/api/runs/${id}/events?${query}`
    return (await harness.app.inject({ url, headers: bearer(harness.keys.ada) })).json()
  }
  const first = await read('limit=2')
  expect(first.items.map(({ sequence }: RunEnvelope) => sequence)).toEqual([1, 2])
  const second = await read(`limit=2&after=${first.next}`)
  expect(second.items.map(({ sequence }: RunEnvelope) => sequence)).toEqual([3])
  expect(second.next).toBeUndefined()
})

describe('a frame', () => {
  test('carries any text in one line of data', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const frame = encodeEvent({ sequence: 1, at: '2026-01-01T00:00:00.000Z', event: delta(text) })
        expect(frame.slice(0, -2).split(/\r\n|\r|\n/)).toHaveLength(3)
      }),
    )
  })

  test.for(['a\nid: 7', 'a\rdata: x', 'a\r\n'])('rejects the type %j', (type) => {
    const event = { type, data: {} } as unknown as RunEvent
    expect(() => encodeEvent({ sequence: 1, at: '', event })).toThrow('one line')
  })
})

describe('the heartbeat', () => {
  test('fills silences and loses no item', async () => {
    const { promise: gate, resolve: release } = Promise.withResolvers<void>()
    async function* source() {
      yield 1
      await gate
      yield 2
    }
    const seen: (number | undefined)[] = []
    for await (const item of withHeartbeat(source(), 5)) {
      seen.push(item)
      if (seen.length === 4) release()
    }
    expect(seen.filter((item) => item !== undefined)).toEqual([1, 2])
    expect(seen.slice(1, 4)).toEqual([undefined, undefined, undefined])
  })

  test('passes on an error of its source, even during a silence', async () => {
    async function* source() {
      yield 1
      throw new Error('broken')
    }
    const beats = withHeartbeat(source(), 5)
    await beats.next()
    await expect(beats.next()).rejects.toThrow('broken')
  })

  test('ends its source when its reader disconnects', async () => {
    let closed = false
    async function* source() {
      try {
        yield 1
        yield 2
      } finally {
        closed = true
      }
    }
    for await (const _ of withHeartbeat(source(), 1000)) break
    expect(closed).toBe(true)
  })
})
