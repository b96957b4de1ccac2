import { resolve } from 'node:path'
import { createInterface } from 'node:readline/promises'
import { parseArgs } from 'node:util'
import { CommandError } from '@pulumi/pulumi/automation/errors.js'
import { LAYERS, type Layer } from '../model/layers.ts'
import { RELEASE_FOLDER, ReleaseError, readRelease } from '../release/read-release.ts'
import { openEngine, saidBy } from './engine.ts'
import { findPulumi, OLDEST } from './find-pulumi.ts'
import { type Environment, findStacks, UpError } from './find-stacks.ts'
import { raise, type UpReport } from './raise.ts'

const USAGE = `npm run up -- --stack <environment> [--to <layer>] [--preview] [--yes] [--json]
  raises an environment with the Pulumi CLI on the PATH: a platform with stack files of layers in their order
  (${LAYERS.join(', ')}), any other as its one stack. Each stack is previewed with the policy pack, then asked for.
  A run that failed is taken up by the same command.

  --to <layer>   stops after this layer
  --preview      changes nothing, and makes no stack
  --yes          asks nothing; needed where nobody can be asked: with --json, and without a terminal
  --json         the result on standard output; progress is on standard error, always
  --secrets-provider <provider>
                 what seals the secrets of a stack that is not there yet; default: PULUMI_SECRETS_PROVIDER
Exit status: 0 it is up, 1 it failed or was declined, 2 it cannot be understood
`
const EXIT = { failed: 1, usage: 2 } as const

const INSTALL = `There is no pulumi on the PATH. Install the Pulumi CLI ${OLDEST.join('.')} or later:
  https://www.pulumi.com/docs/install/
  curl -fsSL https://get.pulumi.com | sh -s -- --version ${OLDEST.join('.')}
Then run this again.`

const say = (line: string) => void process.stderr.write(`${line}\n`)

function readOptions() {
  const { values } = parseArgs({
    options: {
      stack: { type: 'string' },
      to: { type: 'string' },
      preview: { type: 'boolean', default: false },
      yes: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      'secrets-provider': { type: 'string' },
      project: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  })
  return values
}
type Options = ReturnType<typeof readOptions>

async function main(options: Options): Promise<void> {
  const { stack, preview, yes, json } = options
  if (stack === undefined || !/^[a-z][a-z0-9-]{1,62}$/.test(stack))
    throw new TypeError('--stack needs the name of an environment')
  const last = layerOf(options.to)
  const canAsk = process.stdin.isTTY === true && !json
  if (!preview && !yes && !canAsk)
    throw new TypeError('nobody can be asked here: give --yes to change things, or --preview to see them')
  const root = resolve(options.project ?? resolve(import.meta.dirname, '../..'))
  const found = await findStacks(root, stack, last)
  await needPulumi()
  await needRelease(root, found)
  await using engine = await openEngine({
    root,
    secretsProvider: options['secrets-provider'] ?? process.env['PULUMI_SECRETS_PROVIDER'],
    say,
    signal: stopSignal(),
  })
  const confirm = async (question: string) => yes || (await ask(question))
  tell(await raise(engine, { environment: stack, found, isPreview: preview, say, confirm }), json)
}

function layerOf(name: string | undefined): Layer | undefined {
  const layer = LAYERS.find((one) => one === name)
  if (name !== undefined && layer === undefined)
    throw new TypeError(`--to must be one of ${LAYERS.join(', ')}`)
  return layer
}

async function needPulumi(): Promise<void> {
  const cli = await findPulumi(process.env)
  if ('version' in cli) return
  throw new UpError(
    cli.skipped.startsWith('no pulumi') ? INSTALL : `${cli.skipped}: install that, or a later one`,
  )
}

/** The last layer reads the controller's files: whether they are there is known an hour before it begins. */
async function needRelease(root: string, { platform, stacks }: Environment): Promise<void> {
  const { controller } = platform
  const isMade = stacks.some(({ layer }) => layer === undefined || layer === 'add-ons')
  if (!isMade || controller.install !== 'upstream') return
  await readRelease(resolve(root, controller.folder ?? RELEASE_FOLDER))
}

/**
 * Ctrl-C reaches Pulumi directly, and Pulumi then finishes the operations in progress. SIGTERM is forwarded through the
 * signal.
 */
function stopSignal(): AbortSignal {
  const stop = new AbortController()
  process.on('SIGINT', () => say('stopping: what is under way is ended first'))
  process.once('SIGTERM', () => stop.abort())
  return stop.signal
}

async function ask(question: string): Promise<boolean> {
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  lines.on('SIGINT', () => lines.close())
  const closed = new Promise<string>((done) => lines.once('close', () => done('')))
  try {
    return /^y(?:es)?$/i.test((await Promise.race([lines.question(question), closed])).trim())
  } finally {
    lines.close()
  }
}

function tell(report: UpReport, isJson: boolean): void {
  if (isJson) process.stdout.write(`${JSON.stringify(report)}\n`)
  if (report.next !== undefined) say(`\n${report.next}`)
  if (!report.ok) process.exitCode = EXIT.failed
  else if (!isJson && report.layers.at(-1)?.status === 'raised')
    say(`\n${report.environment}: ${report.layers.map(({ stack }) => stack).join(', ')} up`)
}

try {
  const options = readOptions()
  if (options.help) process.stdout.write(USAGE)
  else await main(options)
} catch (error) {
  if (!(error instanceof Error)) throw error
  const isOurs = error instanceof UpError || error instanceof ReleaseError
  const isUsage = error instanceof TypeError
  const isOfCli = error instanceof CommandError
  if (!isOurs && !isUsage && !isOfCli) throw error
  const message = isOfCli ? saidBy(error).join('\n') : error.message
  process.stderr.write(`${message}\n${isUsage ? USAGE : ''}`)
  process.exitCode = isUsage ? EXIT.usage : EXIT.failed
}
