import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import process from 'node:process'
import { type Promoted, promotedText, promotionPage, promotions } from './promote.ts'

const USAGE = `Usage: node scripts/promote/main.ts <write|copy> <from> <to>
  write  puts the images of one environment into the file of another and prints what changes
  copy   has Azure copy them from one registry to the other (az acr import)`

function stop(message: string, status: number): never {
  process.stderr.write(`${message}\n`)
  process.exit(status)
}

const [verb = '', from = '', to = '', ...more] = process.argv.slice(2)
const isName = (name: string) => /^[a-z][a-z0-9-]{1,40}$/.test(name)
if (!['write', 'copy'].includes(verb) || !isName(from) || !isName(to) || from === to || more.length > 0)
  stop(USAGE, 2)

const fileOf = (name: string) => `environments/${name}.json`
const read = (name: string) => ({ name, text: readFileSync(fileOf(name), 'utf8') })

/** By digest, so that nothing else can come under the same name meanwhile. */
function copy({ from: source, to: target }: Promoted): void {
  const [host = ''] = target.split('/')
  const repository = target.slice(host.length + 1, target.indexOf('@'))
  const { status, error } = spawnSync(
    'az',
    ['acr', 'import', '--name', host.split('.')[0] ?? '', '--source', source, '--repository', repository],
    { stdio: ['ignore', 'inherit', 'inherit'] },
  )
  if (error || status !== 0) stop(`${source} was not copied`, 1)
}

try {
  const target = read(to)
  const promoted = promotions(read(from), target)
  if (verb === 'copy') for (const one of promoted) copy(one)
  else {
    writeFileSync(fileOf(to), promotedText(target, promoted))
    process.stdout.write(promotionPage(promoted))
  }
} catch (error) {
  stop(error instanceof Error ? error.message : String(error), 1)
}
