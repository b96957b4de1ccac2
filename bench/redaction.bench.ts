import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createRedactor } from '../runtime/redaction/redactor.ts'
import { type Bench, type Figure, figure } from './harness.ts'

const BYTES = 8_000_000
const CHUNK = 65_536
/** Milliseconds for the text at 100 MB/s, the quality bar for clean text on one core. */
const BAR_MS = BYTES / 100_000
const ROUNDS = 12
const WARM_UP = 4

const SECRETS = ['correct-horse-battery', '9f8e7d6c5b4a39281706f5e4d3c2b1a0', 'another+secret/with=signs']
const LOG_LINE =
  '2026-11-22T10:00:00.000Z [info] build: compiled src/components/app.ts (12 modules) in 34 ms; total=42\n'

/** Clean text through a redactor with known values and personal data on, against one search for a character. */
export const bench: Bench = {
  name: 'redaction',
  run: async () => [
    redaction('log lines', LOG_LINE),
    redaction('source code', sources()),
    redaction('log lines, half', LOG_LINE, BYTES / 2),
  ],
}

function sources(): string {
  const folder = join(import.meta.dirname, '..', 'contracts')
  return readdirSync(folder)
    .map((file) => readFileSync(join(folder, file), 'utf8'))
    .join('')
}

function redaction(what: string, sample: string, bytes = BYTES): Figure {
  const text = Buffer.from(sample.repeat(Math.ceil(bytes / sample.length)).slice(0, bytes)).toString()
  const redactor = createRedactor({ secrets: SECRETS, pii: true })
  const samples = { baseline: [] as number[], value: [] as number[] }
  for (let round = -WARM_UP; round < ROUNDS; round++) {
    const baseline = milliseconds(() => text.split('\u0000').length)
    const value = milliseconds(() => {
      const stream = redactor.stream()
      let given = 0
      for (let at = 0; at < text.length; at += CHUNK) given += stream.push(text.slice(at, at + CHUNK)).length
      return given + stream.end().length
    })
    if (round < 0) continue
    samples.baseline.push(baseline)
    samples.value.push(value)
  }
  const fastest = Math.min(...samples.value)
  return figure({
    name: `redaction (${what})`,
    unit: 'ms',
    measure: 'absolute',
    bar: (BAR_MS * bytes) / BYTES,
    samples,
    note: `${(bytes / 1000 / fastest).toFixed(0)} MB/s of processor time at best, over ${bytes / 1e6} MB`,
  })
}

/** Processor time, since the bar is per core and other programs may share it. */
function milliseconds(work: () => unknown): number {
  const started = process.cpuUsage()
  work()
  const { user, system } = process.cpuUsage(started)
  return (user + system) / 1000
}
