import type { Connection } from '../people/reader.ts'
import type { Finding, RunFacts } from './facts.ts'

/** Every client saw every event once and in order, and exactly what the store has. */
export function checkStreams(run: RunFacts): Finding[] {
  const stored = new Map(run.events.map((event) => [event.sequence, JSON.stringify(event)]))
  const messages = [
    ...gaps(run.events.map(({ sequence }) => sequence)).map((gap) => `the pages of events ${gap}`),
    ...(run.storedSequences.length === run.events.length
      ? []
      : [`the store has ${run.storedSequences.length} events, its pages ${run.events.length}`]),
    ...gaps(run.storedSequences).map((gap) => `the store ${gap}`),
    ...run.readers.flatMap((connections, index) =>
      checkReader(connections, stored).map((problem) => `reader ${index}: ${problem}`),
    ),
    ...afterDone(run),
  ]
  return messages.map((message) => ({ check: 'streams', run: run.id, message }))
}

const gaps = (sequences: readonly number[]): string[] =>
  sequences
    .flatMap((sequence, index) =>
      sequence === index + 1 ? [] : [`has sequence ${sequence} at place ${index + 1}`],
    )
    .slice(0, 3)

function checkReader(connections: readonly Connection[], stored: ReadonlyMap<number, string>): string[] {
  const problems: string[] = []
  const expect = (holds: boolean, problem: string) => void (holds || problems.push(problem))
  let last = 0
  for (const { after, received, replica } of connections) {
    expect(after === last, `asked for events after ${after} and had ${last}`)
    for (const { id, data } of received) {
      const sequence = Number(id)
      expect(sequence === last + 1, `${replica} sent event ${id} after event ${last}`)
      expect(stored.get(sequence) === data, `event ${id} differs from the store: ${data}`)
      last = sequence
    }
  }
  expect(last === stored.size, `ended at event ${last} of ${stored.size}`)
  return problems.slice(0, 5)
}

function afterDone({ events }: RunFacts): string[] {
  const place = events.findIndex(({ event }) => event.type === 'done')
  return place < 0 || place === events.length - 1
    ? []
    : [`has ${events.length - 1 - place} events after done`]
}
