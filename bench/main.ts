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

const round = (number: number): string =>
  Math.abs(number) >= 100 ? number.toFixed(0) : number.toPrecision(3)

const line = ([name = '', ...cells]: readonly string[]): string =>
  [name.padEnd(36), ...cells.map((cell) => cell.padStart(18))].join('')

const HEADER = line(['figure', 'baseline', 'ours', 'measured', 'bar', ''])

/** Printed next to a figure with a bar in milliseconds, because the baseline shows how slow the machine is. */
const besides = ({ measure, value, baseline }: Figure): string =>
  measure !== 'ratio' && baseline > 0 ? ` (×${round(value / baseline)})` : ''

function row(one: Figure): string {
  const [sign, unit] =
    one.measure === 'ratio' ? ['×', ''] : [one.measure === 'added' ? '+' : '', ` ${one.unit}`]
  const cells = [
    one.name,
    `${round(one.baseline)} ${one.unit}`,
    `${round(one.value)} ${one.unit}`,
    `${one.ratio < 0 ? '' : sign}${round(one.ratio)}${unit}${besides(one)}`,
    ...(Number.isFinite(one.bar) ? [`${one.bar}${unit}`, one.pass ? 'pass' : 'MISS'] : ['none', 'stated']),
  ]
  return line(cells) + (one.note ? `\n    ${one.note}` : '')
}

const HELP = `npm run bench -- [name …] [--json]

Runs the named benchmarks, or all of them, one after the other, and prints each figure beside its baseline and its bar.
docs/benchmarks.md says what each measures and needs.

  --json   one JSON object for each figure, with its samples
  --help   this text

Exit code: 0 where every bar is kept, 1 where one is missed, 2 where a benchmark could not run.
`

const options = {
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const

const print = (line: string) => process.stdout.write(`${line}\n`)

async function printHelp(): Promise<void> {
  print(HELP)
  for (const { name } of await loadBenches([])) print(`  ${name}`)
}

/** Whether every bar is kept. */
async function runBench(bench: Bench, json: boolean): Promise<boolean> {
  if (!json && process.stderr.isTTY) process.stderr.write(`  … ${bench.name}\r`)
  const figures = [await bench.run()].flat() as Figure[]
  for (const one of figures) print(json ? JSON.stringify(one) : row(one))
  return figures.every((one) => one.pass)
}

try {
  const { values, positionals } = parseArgs({ allowPositionals: true, options })
  if (values.help) await printHelp()
  else {
    const benches = await loadBenches(positionals)
    if (!values.json) print(HEADER)
    for (const bench of benches) if (!(await runBench(bench, values.json))) process.exitCode = 1
  }
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = 2
}
