import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { loadEnvironment } from '../environment/load-environment.ts'
import { renderMap } from './render-map.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const [name = 'prod'] = process.argv.slice(2)

process.exitCode = main()

function main(): number {
  if (name === '--help' || name === '-h') {
    process.stdout.write(
      'npm run map [-- ENVIRONMENT]\n\nDraws docs/map-<environment>.svg; of prod by default.\n',
    )
    return 0
  }
  const source = join('environments', `${name}.json`)
  if (!existsSync(join(ROOT, source))) return complain([`${source}: there is no such file`])
  const loaded = loadEnvironment(name, readFileSync(join(ROOT, source), 'utf8'))
  if (!loaded.ok) return complain(loaded.mistakes.map((mistake) => `${source}: ${mistake}`))
  const file = join('docs', `map-${name}.svg`)
  writeFileSync(join(ROOT, file), renderMap(loaded.environment))
  process.stdout.write(`${file}\n`)
  return 0
}

function complain(mistakes: readonly string[]): number {
  process.stderr.write(`${mistakes.join('\n')}\nnothing was drawn\n`)
  return 1
}
