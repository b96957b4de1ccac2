import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { HostEvent } from '../../contracts/events.ts'
import { EventRedactor } from '../../runtime/redaction/event-redactor.ts'
import { createRedactor } from '../../runtime/redaction/redactor.ts'

const SECRET = 'correct-horse-battery-staple-4711'
const aRedactor = () => new EventRedactor(createRedactor({ secrets: [SECRET], pii: true }))

const delta = (text: string, messageId = 'm1'): HostEvent => ({
  type: 'agent.message.delta',
  data: { messageId, text },
})
const message = (text: string, messageId = 'm1'): HostEvent => ({
  type: 'agent.message',
  data: { messageId, text },
})
const output = (chunk: string, stream: 'stdout' | 'stderr' = 'stdout'): HostEvent => ({
  type: 'command.output',
  data: { commandId: 'c1', callId: 'c1', stream, chunk },
})
const ended: HostEvent = {
  type: 'tool.error',
  data: { callId: 'c1', tool: 'run_command', code: 'failed', message: 'ended' },
}

const said = (events: readonly HostEvent[]) =>
  events
    .map((event) =>
      event.type === 'agent.message.delta'
        ? event.data.text
        : event.type === 'command.output'
          ? event.data.chunk
          : '',
    )
    .join('')

it('finds a secret split across message deltas', () => {
  const text = `The key is ${SECRET}, keep it.`
  const whole = createRedactor({ secrets: [SECRET], pii: true }).text(text)

  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: text.length - 1 }), { maxLength: 8 }), (cuts) => {
      const redactor = aRedactor()
      const bounds = [0, ...[...new Set(cuts)].sort((a, b) => a - b), text.length]
      const pieces = bounds.slice(1).map((bound, index) => text.slice(bounds[index], bound))

      const events = [...pieces, ''].flatMap((piece, index) =>
        redactor.redact(index < pieces.length ? delta(piece) : message(text)),
      )

      expect(said(events)).toBe(whole)
      expect(JSON.stringify(events)).not.toContain(SECRET)
    }),
  )
})

it('would miss that secret if each delta were redacted alone', () => {
  const { json } = createRedactor({ secrets: [SECRET], pii: true })

  const events = [SECRET.slice(0, 12), SECRET.slice(12)].map((piece) => json(delta(piece)).value)

  expect(said(events)).toBe(SECRET)
})

it('emits held text before the event that ends the stream', () => {
  const redactor = aRedactor()

  const events = [output('password'), output(' prompt'), ended].flatMap((event) => redactor.redact(event))

  expect(said(events)).toBe('password prompt')
  expect(events.at(-1)).toEqual(ended)
})

it('ends the stream that was idle longest when too many are open, and loses none of its text', () => {
  const redactor = aRedactor()
  const name = (index: number) => `m${index}`
  const indices = Array.from({ length: 300 }, (_, index) => index)

  const first = redactor.redact(delta('a0 or ', name(0)))
  const begun = indices.slice(0, 256).flatMap((index) => redactor.redact(delta(`a${index}`, name(index))))
  const again = redactor.redact(delta(' and', name(0)))
  const beyond = redactor.redact(delta('a256', name(256)))
  const rest = indices.slice(257).flatMap((index) => redactor.redact(delta(`a${index}`, name(index))))
  const ends = indices.flatMap((index) => redactor.redact(message('', name(index))))

  expect(said([...first, ...begun]), 'the control: text is held back').toBe('a0 or ')
  expect(said(again)).toBe('a0 ')
  expect(said(beyond), 'the second, since the first has spoken again').toBe('a1')
  const saidBy = (index: number) =>
    said(
      [...first, ...begun, ...again, ...beyond, ...rest, ...ends].filter(
        (event) => event.type === 'agent.message.delta' && event.data.messageId === name(index),
      ),
    )
  expect(indices.map(saidBy)).toEqual(indices.map((index) => (index === 0 ? 'a0 or a0 and' : `a${index}`)))
})

it('keeps messages, commands and their two streams apart', () => {
  const redactor = aRedactor()
  const [head, tail] = [SECRET.slice(0, 12), SECRET.slice(12)]

  const events = [
    output(head, 'stdout'),
    output(tail, 'stderr'),
    delta(head, 'm1'),
    delta(tail, 'm2'),
    ended,
  ].flatMap((event) => redactor.redact(event))
  const rest = redactor.redact({ type: 'turn.ended', data: { turnId: 't', state: 'completed' } })

  expect(said([...events, ...rest]).length).toBe(2 * SECRET.length)
})
