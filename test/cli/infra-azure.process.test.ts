import { readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { parseStackFile } from '../../infra/config-schema.ts'
import type { PlatformConfig } from '../../infra/config-sections.ts'
import { budgetStartProblem, providersOf } from '../../infra/model/registrations.ts'
import { readStackText } from '../../infra/stack-file.ts'
import { writeStackText } from '../infra/write-stack-text.ts'
import { aFolder, runCli } from './run-cli.ts'
import { aStandIn } from './stand-in.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const DEV = readFileSync(join(ROOT, 'Pulumi.dev.yaml'), 'utf8')

function devConfig(): PlatformConfig {
  const parsed = parseStackFile(readStackText(DEV))
  if ('problems' in parsed || parsed.config.kind !== 'platform' || parsed.config.layer !== 'all')
    throw new Error('Pulumi.dev.yaml is not a valid platform')
  return parsed.config
}
const config = devConfig()
const PROVIDERS = providersOf(config).map((name) => ({ name, state: 'Registered' }))

type Said = Readonly<Record<string, { out?: string; err?: string; status?: number }>>
const READY: Said = {
  'account show': { out: `${config.tenantId}\n` },
  'provider list': { out: JSON.stringify(PROVIDERS) },
  'feature show': { out: 'Registered\n' },
  'rest --method': {},
}
const NO_BUDGET = { err: 'ERROR: Not Found({"error":{"code":"ResourceGroupNotFound"}})\n', status: 1 }

/** Runs the check with a fake `az`, on dev's stack file, with the given start of the budget and the given day. */
async function check(said: Said, startDate = '2020-01-01') {
  const az = await aStandIn('az', 'az-stand-in.ts')
  writeFileSync(join(az.state, 'answers.json'), JSON.stringify({ ...READY, ...said }))
  const cwd = await aFolder('aw-azure-check-')
  const file = parse(DEV) as { config: Record<string, { startDate?: string }> }
  Object.assign(file.config['agentweaver:budget'] ?? {}, { startDate })
  writeFileSync(join(cwd, 'Pulumi.dev.yaml'), writeStackText(file))
  const { status, stdout } = await runCli(['infra', 'check', 'dev', '--azure', '--json'], {
    cwd,
    env: az.env,
  })
  const { ok, azure } = JSON.parse(stdout) as {
    ok: boolean
    azure: { check: string; state: string; detail: string }[]
  }
  const states = Object.fromEntries(azure.map((one) => [one.check, one.state]))
  const detail = (name: string) => azure.find((one) => one.check === name)?.detail
  return { status, ok, states, detail, calls: az.calls() }
}

describe('agentweaver infra check --azure', () => {
  test('passes a subscription that has everything a platform needs, and only reads', async () => {
    const { status, ok, states, calls } = await check({})

    expect({ status, ok }).toEqual({ status: 0, ok: true })
    expect(states).toEqual({ login: 'pass', providers: 'pass', features: 'pass', budget: 'pass' })
    expect(calls.map((words) => words.slice(0, 3).join(' '))).toEqual([
      'account show --subscription',
      'provider list --subscription',
      'feature show --namespace',
      'rest --method get',
    ])
    const named = calls.filter((words) => words.join(' ').includes(config.subscriptionId))
    expect(named).toEqual(calls)
  })

  test('is skipped without a login, which is neither a failure nor a pass', async () => {
    const { status, states, detail, calls } = await check({
      'account show': { err: "ERROR: Please run 'az login'\n", status: 1 },
    })

    expect(status).toBe(0)
    expect(states).toEqual({ login: 'skipped' })
    expect(detail('login')).toContain('az login')
    expect(calls).toHaveLength(1)
  })

  test('is skipped if az is not installed', async () => {
    const cwd = await aFolder('aw-azure-check-')
    writeFileSync(join(cwd, 'Pulumi.dev.yaml'), DEV)

    const { status, stdout } = await runCli(['infra', 'check', 'dev', '--azure'], {
      cwd,
      env: { PATH: cwd },
    })

    expect(status).toBe(0)
    expect(stdout).toContain('azure login: skipped: az is not on the PATH')
  })

  test('lists the unregistered providers, with the command to register each', async () => {
    const others = PROVIDERS.filter(({ name }) => name !== 'Microsoft.DBforPostgreSQL')
    const { status, states, detail } = await check({
      'provider list': {
        out: JSON.stringify([...others, { name: 'Microsoft.DBforPostgreSQL', state: 'NotRegistered' }]),
      },
      'feature show': { out: 'NotRegistered\n' },
    })

    expect(status).toBe(1)
    expect(states).toMatchObject({ providers: 'fail', features: 'fail' })
    expect(detail('providers')).toContain('az provider register --namespace Microsoft.DBforPostgreSQL')
    expect(detail('features')).toContain(
      'az feature register --namespace Microsoft.Compute --name EncryptionAtHost',
    )
  })

  test.each([
    [
      'another tenant',
      { 'account show': { out: 'a0000000-0000-4000-8000-000000000000' } },
      'login',
      /tenantId/,
    ],
    [
      'a missing permission',
      { 'provider list': { err: 'ERROR: (AuthorizationFailed) no', status: 1 } },
      'providers',
      /AuthorizationFailed/,
    ],
    [
      'an az that fails without a message',
      { 'provider list': { err: '\n', status: 1 } },
      'providers',
      /^az failed without a message: run it with --debug$/,
    ],
    [
      'a future budget that starts in the past',
      { 'rest --method': NO_BUDGET },
      'budget',
      /"2020-01-01".*past month: set/,
    ],
  ] as const)('fails for %s', async (...[, said, name, message]) => {
    const { status, states, detail } = await check(said)

    expect(status).toBe(1)
    expect(states[name]).toBe('fail')
    expect(detail(name)).toMatch(message)
  })
})

describe('the start date of a future budget', () => {
  const today = new Date('2026-11-25T23:00:00Z')

  test.each(['2026-11-01', '2027-11-01'])('may be %s', (day) => {
    expect(budgetStartProblem(day, today)).toBeUndefined()
  })

  test.each([
    ['2026-10-01', /past month: set .* to "2026-11-01"/],
    ['2027-12-01', /more than twelve months from now/],
  ])('may not be %s', (day, message) => {
    expect(budgetStartProblem(day, today)).toMatch(message)
  })
})

test('checks every resource provider that the plans use', () => {
  /** Azure registers these in every subscription. */
  const ALWAYS = ['authorization', 'consumption', 'resources']
  const MODULES: Readonly<Record<string, string>> = { dns: 'network', privatedns: 'network' }
  const checked = providersOf({
    observability: { grafana: true },
    controller: { install: 'aksExtension' },
  }).map((name) => name.toLowerCase().replace('microsoft.', ''))
  const used = ['dev', 'prod'].flatMap((stack) =>
    [
      ...readFileSync(join(ROOT, `plans/${stack}.json`), 'utf8').matchAll(/"type": "azure-native:(\w+):/g),
    ].map(([, module = '']) => MODULES[module] ?? module),
  )

  expect(used.length).toBeGreaterThan(50)
  expect([...new Set(used)].filter((name) => !ALWAYS.includes(name) && !checked.includes(name))).toEqual([])
})
