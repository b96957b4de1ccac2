import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isUnknown, type Plan, type PlannedValue } from '../../contracts/planned-resource.ts'
import { createDeployment } from '../fakes/pulumi/engine/deployment.ts'
import { type RunResult, runUnderEngine } from '../fakes/pulumi/engine/run-program.ts'
import { openState } from '../fakes/pulumi/engine/state.ts'
import { hasUnknown, type Json, type Properties, plain, readable, valueAt } from '../fakes/pulumi/values.ts'
import { PROJECT, someProviders } from './helpers/deployment.ts'
import { temporaryCloud } from './helpers/provider-client.ts'
import { asTexts, EXTENSION_TYPE, offlineConfig, PROGRAM, ROOT } from './helpers/stack-file.ts'

const KATA_POOL = 'azure-native:containerservice:AgentPool'
const CREDENTIAL = 'azure-native:managedidentity:FederatedIdentityCredential'

const cloud = temporaryCloud()
const state = openState(`${cloud.folder}/state.json`)
const { config, hasRelease } = offlineConfig('dev')
const environment = { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '' }
let providers: Awaited<ReturnType<typeof someProviders>>
let stopped: RunResult
let finished: RunResult
let again: RunResult
const plan = JSON.parse(readFileSync(join(ROOT, 'plans/dev.json'), 'utf8')) as Plan

const settings = () => ({
  project: PROJECT,
  stack: 'dev',
  state,
  providers: providers.addresses,
  config: asTexts(config),
  program: PROGRAM,
  environment,
})
const engine = () => createDeployment(settings())

// The program runs three times: stopped by a failure, to its end, and once more. A loaded machine needs minutes.
beforeAll(async () => {
  providers = await someProviders(cloud)
  cloud.plant({ op: 'create', type: KATA_POOL, how: 'before', nth: 2 })
  stopped = await runUnderEngine(settings())
  finished = await runUnderEngine(settings())
  again = await runUnderEngine(settings())
}, 900_000)

afterAll(async () => {
  await providers[Symbol.asyncDispose]()
  cloud[Symbol.dispose]()
  rmSync(cloud.folder, { recursive: true, force: true })
})

const custom = () => state.list().filter(({ provider }) => provider !== undefined)
const urnsOf = (type: string) => state.list().flatMap((one) => (one.type === type ? [one.urn] : []))

test('stops where a pool cannot be made, with all that was made before in the state', () => {
  const failures = stopped.errors.filter((error) => !/not started|shut down/.test(error))

  expect(failures).toEqual([expect.stringMatching(new RegExp(`${KATA_POOL}::.*planted`))])
  expect(stopped.steps.length).toBeGreaterThan(20)
})

test('goes on where it was stopped, makes nothing twice, and ends with everything in the cloud', () => {
  const made = cloud.log().filter(({ op, outcome }) => op === 'create' && outcome === 'ok')

  expect(finished).toMatchObject({ status: 0, errors: [] })
  expect(finished.changes.filter((change) => !change.startsWith('create '))).toEqual([])
  expect(new Set(made.map(({ id }) => id)).size).toBe(made.length)
  expect(cloud.list().length).toBe(custom().length)
  expect(custom().length).toBeGreaterThan(50)
})

test('changes nothing the second time', () => {
  expect(again).toMatchObject({ status: 0, errors: [], changes: [] })
})

test('finds nothing to refresh right after', async () => {
  await using deployment = engine()

  await deployment.refresh()

  expect(deployment.changes()).toEqual([])
})

test('writes no credential into the state that is not marked secret', () => {
  const open = JSON.stringify(
    state.list().map(({ inputs, outputs }) => [readable(inputs), readable(outputs)]),
  )
  const hidden = JSON.stringify(state.list())

  expect(hidden).toMatch(/certificate-authority-data|kubelogin/)
  expect(open).not.toMatch(/certificate-authority-data|kubelogin|clusterUser_|InstrumentationKey=/)
})

test('lets credentials of one identity wait for each other', () => {
  const credentials = urnsOf(CREDENTIAL)

  expect(credentials.length).toBeGreaterThan(2)
  expect(cloud.log().filter(({ type, outcome }) => type === CREDENTIAL && outcome === 'failed')).toEqual([])
})

describe('the committed plan and the run', () => {
  const resources = () => plan.resources.filter(({ type }) => type.startsWith('azure-native:'))

  test('name the same resources of Azure', () => {
    const made = state
      .list()
      .filter(({ type }) => type.startsWith('azure-native:') && type !== EXTENSION_TYPE)

    expect(
      resources()
        .map(({ urn }) => urn)
        .sort(),
    ).toEqual(made.map(({ urn }) => urn).sort())
    expect(made.length).toBeGreaterThan(40)
  })

  /** Leaves of a planned value with their paths. */
  function leaves(value: PlannedValue, path: string): (readonly [string, PlannedValue])[] {
    const isLeaf = typeof value !== 'object' || value === null || '$unknown' in value || '$secret' in value
    if (isLeaf) return [[path, value]]
    const quoted = (key: string) => (Array.isArray(value) ? `[${key}]` : `[${JSON.stringify(key)}]`)
    return Object.entries(value).flatMap(([key, item]) =>
      leaves(item as PlannedValue, `${path}${quoted(key)}`),
    )
  }
  const all = () =>
    resources().flatMap(({ urn, inputs }) =>
      leaves(inputs as PlannedValue, '').map(([path, value]) => ({ urn, path, value })),
    )
  const real = (urn: string, path: string): Json | undefined =>
    valueAt(plain((state.get(urn)?.inputs ?? {}) as Properties), path)

  test('agree on what is known before, to the last value', () => {
    const known = all().filter(
      ({ value }) => value !== null && !isUnknown(value) && typeof value !== 'object',
    )
    const wrong = known.filter(({ urn, path, value }) => real(urn, path) !== value)

    expect(wrong.map(({ urn, path, value }) => [urn, path, value, real(urn, path)])).toEqual([])
    expect(known.length).toBeGreaterThan(200)
  })

  test('agree on what only Azure knows: each of it has become a value', () => {
    const open = all().filter(({ value }) => isUnknown(value))
    const missing = open.filter(({ urn, path }) => {
      const value = real(urn, path)
      return value === undefined || value === null || value === '' || hasUnknown(value)
    })

    expect(missing).toEqual([])
    expect(open.length).toBeGreaterThan(50)
  })
})

test('brings drift to light, and only what the program has said', async () => {
  const group = state.list().find(({ type }) => type === 'azure-native:resources:ResourceGroup')
  cloud.alter(group?.id ?? '', 'tags.owner', 'nobody')
  await using deployment = engine()

  await deployment.refresh()

  expect(deployment.steps.filter(({ kind }) => kind === 'refresh').map(({ urn }) => urn)).toEqual([
    group?.urn,
  ])
})

describe('the end', () => {
  test('is refused by name while something is protected', async () => {
    await using deployment = engine()

    await deployment.destroy()

    expect(deployment.errors).toEqual([
      expect.stringMatching(/::.*: resource cannot be deleted because it is protected/),
    ])
    expect(custom().length).toBe(cloud.list().length)
  })

  test('leaves nothing in the cloud and nothing in the state', async () => {
    for (const one of state.list().filter(({ protect }) => protect)) state.put({ ...one, protect: false })
    await using deployment = engine()

    await deployment.destroy()

    expect(deployment.errors).toEqual([])
    expect(state.list()).toEqual([])
    expect(cloud.list()).toEqual([])
  })
})

test.runIf(hasRelease)('makes the controller of the pinned release too', () => {
  const kinds = cloud.log().filter(({ provider, op }) => provider === 'kubernetes' && op === 'create')

  expect(kinds.map(({ type }) => type)).toContain('kubernetes:apps/v1:Deployment')
})
