import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { parseStateConfig, type StateConfig } from './state-config.ts'
import { stateNames } from './state-names.ts'
import { parameterFile } from './state-parameters.ts'

const USAGE = `Usage: npm run state -- <parameters|what-if|apply> <file>
  parameters  print the parameter file of infra/state/state.bicep
  what-if     ask Azure what it would change (az deployment sub what-if)
  apply       deploy it (az deployment sub create) and print the variables for the environments of GitHub
<file> has the form of infra/state/examples/dev.json. An owner of the subscription runs it once for each environment.`

/** Exit statuses: 0 done, 1 az failed, 2 wrong arguments or file. */
const FAILED = 1
const WRONG = 2

function stop(message: string, status: number): never {
  process.stderr.write(`${message}\n`)
  process.exit(status)
}

function readConfig(path: string): StateConfig {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    stop(`${path}: cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'})`, WRONG)
  }
  const parsed = parseStateConfig(text)
  if ('problems' in parsed) stop(parsed.problems.map((problem) => `${path}: ${problem}`).join('\n'), WRONG)
  return parsed.config
}

/** Runs az with these arguments. Its prompts and errors go to the terminal. */
function az(args: readonly string[]): string {
  const { status, stdout, error } = spawnSync('az', args, {
    encoding: 'utf8',
    stdio: ['inherit', 'pipe', 'inherit'],
    maxBuffer: 64 * 1_048_576,
  })
  if (error) {
    const { code, message } = error as NodeJS.ErrnoException
    const absent = 'az is not on the PATH: install the Azure CLI, then "az login"'
    throw new Error(code === 'ENOENT' ? absent : message, { cause: error })
  }
  if (status !== 0) throw new Error(`az ${args.slice(0, 3).join(' ')} failed`)
  return stdout
}

/** Every call names the subscription, so that another default of `az` cannot redirect the deployment. */
function deploy(verb: 'what-if' | 'create', config: StateConfig): string {
  const folder = mkdtempSync(join(tmpdir(), 'agentweaver-state-'))
  try {
    const file = join(folder, 'parameters.json')
    writeFileSync(file, JSON.stringify(parameterFile(config)))
    return az([
      'deployment',
      'sub',
      verb,
      '--subscription',
      config.subscriptionId,
      '--location',
      config.location,
      '--name',
      stateNames(config).deployment,
      '--template-file',
      join(import.meta.dirname, 'state.bicep'),
      '--parameters',
      `@${file}`,
      ...(verb === 'create' ? ['--query', 'properties.outputs', '--output', 'json'] : []),
    ])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The variables of each GitHub environment, in the form of its settings page. */
function variables(config: StateConfig, outputs: Readonly<Record<string, { value?: unknown }>>): string[] {
  const names = stateNames(config)
  const value = (key: string) => String(outputs[key]?.value ?? stop(`the output of az has no ${key}`, FAILED))
  const duties = config.previews ? (['up', 'plan', 'preview'] as const) : (['up', 'plan'] as const)
  const identities = duties.flatMap((duty) => [
    `environment ${names.gate(duty)}`,
    `  AZURE_CLIENT_ID=${value(`${duty}ClientId`)}`,
    `  AZURE_TENANT_ID=${config.tenantId}`,
    `  AZURE_SUBSCRIPTION_ID=${config.subscriptionId}`,
    `  PULUMI_BACKEND_URL=${value('backendUrl')}`,
    `  PULUMI_SECRETS_PROVIDER=${value('secretsProvider')}`,
  ])
  return [
    ...identities,
    `object id of ${names.identity('up')}: ${value('upPrincipalId')} ("promotedBy" in the file of an environment whose images are copied to this one)`,
  ]
}

const [verb = '', file = '', ...more] = process.argv.slice(2)
if (file === '' || more.length > 0 || !['parameters', 'what-if', 'apply'].includes(verb)) stop(USAGE, WRONG)
const config = readConfig(file)
try {
  if (verb === 'parameters') process.stdout.write(`${JSON.stringify(parameterFile(config), null, 2)}\n`)
  if (verb === 'what-if') process.stdout.write(deploy('what-if', config))
  if (verb === 'apply')
    process.stdout.write(`${variables(config, JSON.parse(deploy('create', config))).join('\n')}\n`)
} catch (error) {
  stop(error instanceof Error ? error.message : String(error), FAILED)
}
