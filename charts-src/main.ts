import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Difference } from './tree/compare-tree.ts'
import {
  compareProject,
  environmentNames,
  orphanTrees,
  type Rendered,
  renderProject,
  writeProject,
} from './tree/synth.ts'

const USAGE = `npm run synth [-- ENVIRONMENT…] [-- --check | --diff]

Renders gitops/<environment> from environments/<environment>.json, of all environments by default.

  --check   writes nothing; fails, and shows the difference, if the committed trees are not what is rendered
  --diff    writes nothing; shows what would change`

const PROJECT = { root: join(import.meta.dirname, '..') }
const say = (line: string) => process.stdout.write(`${line}\n`)
const complain = (line: string) => process.stderr.write(`${line}\n`)

process.exitCode = main(process.argv.slice(2))

function main(argv: readonly string[]): number {
  const { values, positionals } = readArguments(argv)
  if (values.help) {
    say(USAGE)
    return 0
  }
  const isWhole = positionals.length === 0
  const rendering = renderProject(PROJECT, isWhole ? environmentNames(PROJECT) : positionals)
  if (!rendering.ok) {
    for (const mistake of rendering.mistakes) complain(mistake)
    complain('nothing was written')
    return 1
  }
  if (!values.check && !values.diff) return write(rendering.trees)
  const count = show(compareProject(PROJECT, rendering.trees), isWhole ? orphanTrees(PROJECT) : [])
  return values.check && count > 0 ? 1 : 0
}

function write(trees: readonly Rendered[]): number {
  const written = writeProject(PROJECT, trees)
  for (const { name, files } of trees) {
    say(`gitops/${name}: ${files.size} files${written.includes(name) ? '' : ', unchanged'}`)
  }
  return 0
}

function readArguments(argv: readonly string[]) {
  const options = {
    check: { type: 'boolean' },
    diff: { type: 'boolean' },
    help: { type: 'boolean', short: 'h' },
  } as const
  return parseArgs({ args: [...argv], options, allowPositionals: true })
}

function show(differences: ReadonlyMap<string, readonly Difference[]>, orphans: readonly string[]): number {
  for (const name of orphans) say(`gitops/${name}: has no environments/${name}.json; delete it`)
  const all = [...differences].flatMap(([name, list]) => list.map((difference) => ({ name, ...difference })))
  for (const { name, path, what, lines } of all) {
    say(`gitops/${name}/${path}: ${what}`)
    for (const line of lines) say(`  ${line}`)
  }
  const count = all.length + orphans.length
  if (count === 0) say('gitops/ is what is rendered')
  else complain(`${count} files differ; npm run synth writes them`)
  return count
}
