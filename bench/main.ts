import { readdir } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import type { Bench, Figure } from './harness.ts'

const SUFFIX = '.bench.ts'

/** Benchmarks by file name; only those that are asked for are loaded. */
async function loadBenches(wanted: readonly string[]): Promise<Bench[]> {
  const files = (await readdir(import.meta.dirname)).filter((file) => file.endsWith(SUFFIX)).sort()
  const known = files.map((file) => file.slice(0, -SUFFIX.length))
  const unknown = wanted.filter((name) => !known.includes(name))
  if (unknown.length > 0)
    throw new Error(`No benchmark is named ${unknown.join(', ')}. There are: ${known.join(', ')}.`)
  const names = wanted.length > 0 ? wanted : known
  return Promise.all(
    names.map(async (name) => {
      const module: { bench: Bench } = await import(`./${name}${SUFFIX}`)
      return module.bench
    }),
  )
}

const round = (number: number): string => (number >= 100 ? number.toFixed(0) : number.toPrecision(3))

function row(one: Figure): string {
  const [sign, unit] = one.measure === 'ratio' ? ['×', ''] : [one.measure === 'added' ? '+' : '', one.unit]
  const compared = `${sign}${round(one.ratio)}${unit}`.padStart(10)
  const verdict = one.pass ? 'pass' : 'MISS'
  const cells = [
    one.name.padEnd(28),
    `${round(one.baseline)} ${one.unit}`.padStart(14),
    `${round(one.value)} ${one.unit}`.padStart(14),
    compared,
    `${one.bar}`.padStart(8),
    verdict.padStart(6),
  ]
  return cells.join('') + (one.note ? `\n    ${one.note}` : '')
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { json: { type: 'boolean', default: false } },
})
const print = (line: string) => process.stdout.write(`${line}\n`)
try {
  const benches = await loadBenches(positionals)
  if (!values.json)
    print(
      `${'figure'.padEnd(28)}${'baseline'.padStart(14)}${'ours'.padStart(14)}${'measured'.padStart(10)}${'bar'.padStart(8)}`,
    )
  for (const bench of benches) {
    if (!values.json) process.stderr.write(`  … ${bench.name}\r`)
    const figures = [await bench.run()].flat() as Figure[]
    for (const one of figures) print(values.json ? JSON.stringify(one) : row(one))
    if (figures.some((one) => !one.pass)) process.exitCode = 1
  }
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = 2
}
