import * as z from 'zod'
import type { PlatformConfig } from '../../infra/config-sections.ts'
import { platformNames, resourceGroupId } from '../../infra/model/platform-names.ts'
import { budgetStartProblem, FEATURES, providersOf } from '../../infra/model/registrations.ts'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import type { CallProgram } from '../program-call/call-program.ts'

/** The result of one check of Azure's state before a first `pulumi up`. `skipped` does not count as a pass. */
export interface AzureCheck {
  readonly check: 'login' | 'providers' | 'features' | 'budget'
  readonly state: 'pass' | 'fail' | 'skipped'
  readonly detail: string
}

interface Asked {
  readonly config: PlatformConfig
  readonly call: CallProgram
  readonly today: Date
}

/** A read takes seconds. The limit ends an `az` that waits for an interactive login. */
const READ_MS = 120_000
const BUDGETS_API = '2024-08-01'

const az = (call: CallProgram, ...args: readonly string[]) =>
  call({ program: 'az', args, timeoutMs: READ_MS })

/** Asks Azure by `az` what the subscription lacks. It only reads. Without a login there is one entry: skipped. */
export async function azureChecks(asked: Asked): Promise<AzureCheck[]> {
  const login = await loginCheck(asked)
  if (login.state !== 'pass') return [login]
  return [login, await providers(asked), await features(asked), await budget(asked)]
}

async function loginCheck({ config, call }: Asked): Promise<AzureCheck> {
  const { subscriptionId, tenantId } = config
  const check = 'login'
  const query = ['--subscription', subscriptionId, '--query', 'tenantId', '--output', 'tsv']
  try {
    const { status, stdout } = await az(call, 'account', 'show', ...query)
    if (status !== 0)
      return {
        check,
        state: 'skipped',
        detail: `az has no login for the subscription ${subscriptionId}: az login`,
      }
    const found = stdout.trim()
    if (found === tenantId) return { check, state: 'pass', detail: `subscription ${subscriptionId}` }
    return {
      check,
      state: 'fail',
      detail: `the subscription is in the tenant ${found}: set agentweaver:tenantId to it`,
    }
  } catch (error) {
    if (error instanceof CliError && error.status === EXIT.unreachable)
      return { check, state: 'skipped', detail: 'az is not on the PATH' }
    throw error
  }
}

/** The error is the last line that `az` prints; warnings precede it. */
const complaint = (stderr: string) =>
  stderr.trim().split('\n').at(-1) || 'az failed without a message: run it with --debug'

const Providers = z.array(z.object({ name: z.string(), state: z.string() }))

async function providers({ config, call }: Asked): Promise<AzureCheck> {
  const check = 'providers'
  const query = '[].{name:namespace,state:registrationState}'
  const { status, stdout, stderr } = await az(
    call,
    ...['provider', 'list', '--subscription', config.subscriptionId, '--query', query, '--output', 'json'],
  )
  if (status !== 0) return { check, state: 'fail', detail: complaint(stderr) }
  const registered = Providers.parse(JSON.parse(stdout))
    .filter(({ state }) => state === 'Registered')
    .map(({ name }) => name.toLowerCase())
  const wanted = providersOf(config)
  const missing = wanted.filter((name) => !registered.includes(name.toLowerCase()))
  if (missing.length === 0) return { check, state: 'pass', detail: `${wanted.length} are registered` }
  const remedy = missing.map((name) => `az provider register --namespace ${name}`).join('; ')
  return { check, state: 'fail', detail: `not registered: ${missing.join(', ')}. ${remedy}` }
}

async function features({ config, call }: Asked): Promise<AzureCheck> {
  const check = 'features'
  const missing: string[] = []
  for (const { namespace, name, why } of FEATURES) {
    const words = ['--namespace', namespace, '--name', name]
    const { status, stdout, stderr } = await az(
      call,
      ...['feature', 'show', ...words, '--subscription', config.subscriptionId],
      ...['--query', 'properties.state', '--output', 'tsv'],
    )
    if (status !== 0) return { check, state: 'fail', detail: complaint(stderr) }
    const state = stdout.trim()
    if (state !== 'Registered')
      missing.push(
        `${namespace}/${name} is ${state || 'unknown'}: ${why}. az feature register ${words.join(' ')}; az provider register --namespace ${namespace}`,
      )
  }
  if (missing.length > 0) return { check, state: 'fail', detail: missing.join('; ') }
  return { check, state: 'pass', detail: `${FEATURES.length} is registered` }
}

/** An existing budget keeps its start date, so Azure's rule applies only to a new budget. */
async function budget({ config, call, today }: Asked): Promise<AzureCheck> {
  const check = 'budget'
  const { base, resourceGroup } = platformNames(config)
  const group = resourceGroupId(config.subscriptionId, resourceGroup)
  const url = `https://management.azure.com${group}/providers/Microsoft.Consumption/budgets/${base}?api-version=${BUDGETS_API}`
  const { status, stderr } = await az(call, 'rest', '--method', 'get', '--url', url, '--output', 'none')
  if (status === 0) return { check, state: 'pass', detail: 'it is there, and keeps its first day' }
  if (!/NotFound|could not be found/i.test(stderr)) return { check, state: 'fail', detail: complaint(stderr) }
  const problem = budgetStartProblem(config.budget.startDate, today)
  if (problem !== undefined) return { check, state: 'fail', detail: `budget.startDate ${problem}` }
  return { check, state: 'pass', detail: `it can be made, from ${config.budget.startDate} on` }
}
