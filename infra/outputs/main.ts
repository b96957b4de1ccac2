import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { parseArgs, promisify } from 'node:util'
import { layerStack } from '../model/layers.ts'
import { withOutputs } from './environment-file.ts'

const USAGE = `npm run environment -- --stack <name> [--from <file> | --from -] [--check]
  writes the section "infra" of environments/<name>.json from the outputs of the stack, or of its layer cluster
  --from   reads what \`pulumi stack output --json\` said, from a file or standard input, and calls no pulumi
  --check  writes nothing and fails where the file differs
`
const EXIT = { different: 1, usage: 2 } as const
const MAX_BYTES = 16 * 1024 * 1024
const TIMEOUT_MS = 120_000

/** Of a platform in layers, the one of the cluster has what charts read. */
function stackWithOutputs(root: string, environment: string): string {
  const cluster = layerStack(environment, 'cluster')
  return existsSync(join(root, `Pulumi.${cluster}.yaml`)) ? cluster : environment
}

async function readOutputs(root: string, environment: string, from: string | undefined): Promise<unknown> {
  if (from === '-') return JSON.parse(await text(process.stdin))
  if (from !== undefined) return JSON.parse(await readFile(resolve(from), 'utf8'))
  const stack = stackWithOutputs(root, environment)
  const run = promisify(execFile)
  const { stdout } = await run(
    'pulumi',
    ['stack', 'output', '--json', '--stack', stack, '--non-interactive'],
    {
      cwd: root,
      maxBuffer: MAX_BYTES,
      timeout: TIMEOUT_MS,
    },
  )
  return JSON.parse(stdout)
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      stack: { type: 'string' },
      from: { type: 'string' },
      check: { type: 'boolean', default: false },
      project: { type: 'string' },
    },
  })
  const { stack } = values
  if (stack === undefined || !/^[a-z][a-z0-9-]{1,62}$/.test(stack))
    throw new TypeError('--stack needs the name of a stack')
  const root = resolve(values.project ?? resolve(import.meta.dirname, '../..'))
  const name = `environments/${stack}.json`
  const file = await readFile(join(root, name), 'utf8')
  const result = withOutputs(file, await readOutputs(root, stack, values.from))
  if ('problems' in result) {
    process.stderr.write(`${name} stays as it is:\n${result.problems.map((line) => `  ${line}\n`).join('')}`)
    process.exitCode = EXIT.different
  } else if (result.isSame) process.stdout.write(`${name} says what the stack is\n`)
  else if (values.check) {
    process.stderr.write(`${name} does not say what the stack is: npm run environment -- --stack ${stack}\n`)
    process.exitCode = EXIT.different
  } else {
    await writeFile(join(root, name), result.content)
    process.stdout.write(`wrote ${name}; next: npm run synth\n`)
  }
}

try {
  await main()
} catch (error) {
  if (!(error instanceof Error)) throw error
  process.stderr.write(`${error.message}\n${USAGE}`)
  process.exitCode = EXIT.usage
}
