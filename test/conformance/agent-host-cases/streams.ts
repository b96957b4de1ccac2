import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { HostEnvelope } from '../../../contracts/events.ts'
import { ExecRequest } from '../../../contracts/exec.ts'
import { delay } from '../../../runtime/kit/deadline.ts'
import { scripted } from './decisions.ts'
import {
  aConfiguredHost,
  BEARER,
  type ConfiguredHost,
  collect,
  exited,
  never,
  type Subject,
  turnEnded,
} from './host.ts'
import { send } from './raw-http.ts'

const LINES = 400
/** Without an event for this long, the outbox counts as full. */
const STALL_MS = 400

/** The complete events of a raw stream that is cut after `bytes`, or that has no more data. */
async function takeBytes(host: ConfiguredHost, after: number, bytes: number): Promise<HostEnvelope[]> {
  const socket = await host.connect()
  socket.write(
    `GET /events HTTP/1.1\r\nhost: agent-host\r\nauthorization: Bearer ${BEARER}\r\nlast-event-id: ${after}\r\n\r\n`,
  )
  let text = ''
  for await (const chunk of socket) {
    text += chunk
    if (text.length >= bytes || text.includes('event: turn.ended\ndata')) break
  }
  socket.destroy()
  return framesOf(text.slice(0, bytes))
}

/** The complete events in a part of a stream, without chunk sizes. */
function framesOf(text: string): HostEnvelope[] {
  const frames = text.matchAll(/^id: \d+\nevent: [\w.]+\ndata: (\{.*\})\n\n/gm)
  return [...frames].map(([, data = '']) => JSON.parse(data))
}

/** The size of an output event is limited, so this many overrun any outbox. */
const FLOOD = ExecRequest.parse({
  command: 'head -c 50000000 /dev/zero | tr "\\0" x',
  maxOutputBytes: 60_000_000,
  timeoutMs: 120_000,
})

/**
 * Reads without acknowledging until no more events arrive, then acknowledges and reads to the end of the
 * command.
 */
async function readUntilItStalls({ client }: ConfiguredHost): Promise<{ bytes: number; stalls: number }> {
  const stop = new AbortController()
  const events = client.events(0, AbortSignal.any([stop.signal, AbortSignal.timeout(150_000)]))
  const told = { bytes: 0, stalls: 0 }
  let last = 0
  for (let next = events.next(); ; ) {
    const step = await Promise.race([next, delay(STALL_MS)])
    if (!step) {
      told.stalls += 1
      await client.decide({ ackedThrough: last, decisions: [] }, never)
      continue
    }
    if (step.done) throw new Error('the stream ended')
    last = step.value.sequence
    told.bytes += outputOf(step.value).length
    if (exited('c1')(step.value)) break
    next = events.next()
  }
  stop.abort()
  return told
}

const outputOf = ({ event }: HostEnvelope): string =>
  event.type === 'command.output' ? event.data.chunk : ''

export function streamCases(subject: Subject): void {
  it('repeats and loses nothing when a stream is cut at any point', async () => {
    const host = await aConfiguredHost(subject, {
      agent: scripted([
        { kind: 'say', text: 'one' },
        { kind: 'tool', tool: 'run_command', arguments: { command: 'seq 5' } },
        { kind: 'say', text: 'three' },
      ]),
    })
    await host.client.turns.start({ id: 't1', prompt: 'go' }, never)
    const all = await collect(host, turnEnded)

    for (let cut = 0; cut < all.length; cut++) {
      expect(await collect(host, turnEnded, { after: cut })).toEqual(all.slice(cut))
    }
    const total = JSON.stringify(all).length
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 1, max: total }), { maxLength: 6 }), async (cuts) => {
        const seen: HostEnvelope[] = []
        for (const bytes of cuts) {
          if (seen.length === all.length) break
          seen.push(...(await takeBytes(host, seen.length, bytes)))
        }
        if (seen.length < all.length) seen.push(...(await collect(host, turnEnded, { after: seen.length })))

        expect(seen).toEqual(all)
      }),
      { numRuns: 25 },
    )
  })

  it('loses nothing when a stream is cut repeatedly while events arrive', async () => {
    const host = await aConfiguredHost(subject)
    const command = `for i in $(seq ${LINES}); do echo "line $i"; done; sleep 0.05; echo end`
    await host.client.startCommand('c1', ExecRequest.parse({ command }), never)
    const seen: HostEnvelope[] = []
    let attaches = 0

    for (let isOver = false; !isOver; attaches++) {
      const stop = AbortSignal.timeout(120_000)
      for await (const envelope of host.client.events(seen.length, stop)) {
        seen.push(envelope)
        isOver = exited('c1')(envelope)
        if (isOver || seen.length % 2 === 1) break
      }
    }

    const whole = await collect(host, exited('c1'))
    const lines = seen
      .flatMap(({ event }) => (event.type === 'command.output' ? event.data.chunk : []))
      .join('')
    expect(attaches).toBeGreaterThan(1)
    expect(seen).toEqual(whole)
    expect(lines.trim().split('\n')).toHaveLength(LINES + 1)
  })

  it('returns 410 for acknowledged events, and 400 for events that never existed', async () => {
    const host = await aConfiguredHost(subject)
    await host.client.startCommand('c1', ExecRequest.parse({ command: 'echo x' }), never)
    const seen = await collect(host, exited('c1'))
    await host.client.decide({ ackedThrough: 1, decisions: [] }, never)
    const ask = async (id: string) => {
      const headers = { authorization: `Bearer ${BEARER}`, 'last-event-id': id }
      const { status, json } = await send(host, { method: 'GET', path: '/events', headers })
      return [status, (json as { code?: string } | undefined)?.code]
    }

    expect(await ask('0')).toEqual([410, 'outbox_overrun'])
    for (const never of [String(seen.length + 1), '-1', '1.5', '1e3', 'x', '99999999999999999999']) {
      expect(await ask(never), never).toEqual([400, 'invalid_request'])
    }
    expect(await collect(host, exited('c1'), { after: 1 })).toEqual(seen.slice(1))
  })

  it('pauses producers while its outbox is full, and drops nothing', async () => {
    const host = await aConfiguredHost(subject)
    await host.client.startCommand('c1', FLOOD, never)
    const { bytes, stalls } = await readUntilItStalls(host)

    expect(stalls).toBeGreaterThan(0)
    expect(bytes).toBe(50_000_000)
  })

  it('does not let a slow reader block other readers', async () => {
    const host = await aConfiguredHost(subject)
    const stuck = await host.connect()
    stuck.pause()
    stuck.write(`GET /events HTTP/1.1\r\nhost: agent-host\r\nauthorization: Bearer ${BEARER}\r\n\r\n`)
    const command = ExecRequest.parse({
      command: 'head -c 8000000 /dev/zero | tr "\\0" x',
      maxOutputBytes: 9_000_000,
    })
    await host.client.startCommand('c1', command, never)

    const events = await collect(host, exited('c1'))
    stuck.destroy()

    expect(events.map(outputOf).join('')).toHaveLength(8_000_000)
  })
}
