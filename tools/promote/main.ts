import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import process from 'node:process'
import { parseStackFile } from '../../infra/config-schema.ts'
import { readStackText } from '../../infra/stack-file.ts'
import { importArguments, type Promoted, promotedText, promotionPage, promotions } from './promote.ts'

const USAGE = `Usage: node tools/promote/main.ts <write|copy> <from> <to>
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

/** The subscription that the source's registry is in, from its stack file. */
function subscriptionOf(name: string): string {
  const parsed = parseStackFile(readStackText(readFileSync(`Pulumi.${name}.yaml`, 'utf8')))
  if ('problems' in parsed || parsed.config.kind !== 'platform' || parsed.config.layer !== 'all')
    throw new Error(
      `Pulumi.${name}.yaml is not the right stack file of a platform: npx agentweaver infra check ${name}`,
    )
  return parsed.config.subscriptionId
}

function copy(one: Promoted, subscription: string): void {
  const { status, error } = spawnSync('az', importArguments(one, subscription, from), {
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  if (error || status !== 0)
    stop(
      `${one.from} was not copied. The identity needs the right to read images in the subscription of ${from}: "promotedBy" in its file for "npm run state" (docs/infra.md)`,
      1,
    )
}

try {
  const target = read(to)
  const promoted = promotions(read(from), target)
  if (verb === 'copy') {
    const subscription = subscriptionOf(from)
    for (const one of promoted) copy(one, subscription)
  } else {
    writeFileSync(fileOf(to), promotedText(target, promoted))
    process.stdout.write(promotionPage(promoted))
  }
} catch (error) {
  stop(error instanceof Error ? error.message : String(error), 1)
}
