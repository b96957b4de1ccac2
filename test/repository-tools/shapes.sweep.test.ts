import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  checkShapes,
  loadShapes,
  type Shapes,
  typesWithoutShape,
} from '../../tools/azure-shapes/check-shapes.ts'
import { hiddenObjects } from '../../tools/azure-shapes/hidden-objects.ts'
import { CLUSTER, CLUSTER_ARGS, POOL, POOL_ARGS, planOf } from '../infra/one-resource.ts'

const TYPES = [
  CLUSTER,
  POOL,
  'azure-native:containerservice:MaintenanceConfiguration',
  'azure-native:keyvault:Vault',
  'azure-native:monitor:MetricAlert',
  'azure-native:network:VirtualNetwork',
  'azure-native:authorization:RoleAssignment',
  'azure-native:dbforpostgresql:AdministratorsMicrosoftEntra',
]

const cache = mkdtempSync(join(tmpdir(), 'shapes-'))
let shapes: Shapes

beforeAll(async () => {
  shapes = await loadShapes(TYPES, cache)
})
afterAll(() => rmSync(cache, { recursive: true, force: true }))

const problems = (type: string, inputs: object) =>
  checkShapes(planOf(type, inputs), shapes).map(({ path, message }) => `${path} ${message}`)

test.each([
  ['a pool', POOL, POOL_ARGS],
  ['a cluster', CLUSTER, CLUSTER_ARGS],
])('finds nothing wrong with %s that is right', (_, type, args) => {
  expect(problems(type, args)).toEqual([])
})

describe('required nested properties', () => {
  test('reports a missing property of a nested object with its path', () => {
    expect(problems(CLUSTER, { ...CLUSTER_ARGS, agentPoolProfiles: [{ mode: 'System' }] })).toEqual([
      'agentPoolProfiles[0].name is missing; Azure requires it',
    ])
  })

  test('for types with a constant discriminator, only the properties of the named type are checked', () => {
    const criteria = { odataType: 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria' }
    const alert = {
      resourceGroupName: 'rg',
      enabled: true,
      severity: 1,
      evaluationFrequency: 'PT5M',
      windowSize: 'PT5M',
      scopes: ['x'],
    }
    const metric = {
      criterionType: 'StaticThresholdCriterion',
      name: 'n',
      metricName: 'm',
      operator: 'GreaterThan',
      threshold: 1,
      timeAggregation: 'Average',
    }
    const all = (value: object) => problems('azure-native:monitor:MetricAlert', { ...alert, criteria: value })

    expect(all({ ...criteria, allOf: [metric] })).toEqual([])
    expect(all({ ...criteria, allOf: [{ ...metric, operator: 'Above' }] })).toHaveLength(1)
    expect(all({ ...criteria, all: [metric] })).toHaveLength(1)
    expect(all({ ...criteria, odataType: 'Microsoft.Azure.Monitor.Other' })).toHaveLength(1)
    expect(all({ allOf: [metric] })).toEqual(['criteria.odataType is missing; Azure requires it'])
  })
})

describe('values that are unknown during planning', () => {
  const unknown = { $unknown: 'urn:pulumi:dev::p::azure-native:network:VirtualNetwork::net#id' }

  test.each([
    ['unknown', unknown],
    ['secret', { $secret: true }],
  ])('an %s value passes wherever a value is asked for, in lists and maps too', (_, marker) => {
    const inputs = {
      ...POOL_ARGS,
      resourceName: marker,
      workloadRuntime: marker,
      osDiskSizeGB: marker,
      nodeTaints: [marker],
      nodeLabels: { a: marker },
      upgradeSettings: marker,
      availabilityZones: marker,
    }

    expect(problems(POOL, inputs)).toEqual([])
  })

  test('does not replace a missing key', () => {
    const { resourceName: _, ...nameless } = { ...POOL_ARGS, vnetSubnetID: unknown }

    expect(problems(POOL, nameless)).toEqual(['resourceName is missing; Azure requires it'])
  })

  test.each([
    ['an unknown marker with other properties', { ...unknown, enableFIPS: true }],
    ['both markers at once', { $unknown: 'x', $secret: true }],
    ['an invalid secret marker', { $secret: false }],
    ['an unknown without its origin', { $unknown: true }],
  ])('%s is an object like any other', (_, forged) => {
    expect(problems(POOL, { ...POOL_ARGS, securityProfile: forged }).length).toBeGreaterThan(0)
    expect(problems(POOL, { ...POOL_ARGS, workloadRuntime: forged }).length).toBeGreaterThan(0)
  })

  test('null is not the same as a missing value', () => {
    expect(problems(POOL, { ...POOL_ARGS, vmSize: null })).toEqual(['vmSize is null; Azure accepts string'])
  })
})

describe('an object that is unknown as a whole', () => {
  const hidden = (inputs: object) => hiddenObjects(planOf(CLUSTER, inputs), shapes).map(({ path }) => path)
  const unknown = { $unknown: 'x' }

  test('is reported at any depth, including in lists', () => {
    expect(hidden({ networkProfile: unknown, agentPoolProfiles: unknown })).toEqual([
      'networkProfile',
      'agentPoolProfiles',
    ])
    expect(hidden({ agentPoolProfiles: [unknown, { upgradeSettings: unknown }] })).toEqual([
      'agentPoolProfiles[0]',
      'agentPoolProfiles[1].upgradeSettings',
    ])
  })

  test('is not a single value, a list of values or a map', () => {
    expect(
      hidden({
        resourceName: unknown,
        tags: unknown,
        apiServerAccessProfile: { authorizedIPRanges: unknown },
      }),
    ).toEqual([])
  })
})

describe('values that Azure accepts and the types do not have', () => {
  const type = 'azure-native:dbforpostgresql:AdministratorsMicrosoftEntra'
  const administrator = { resourceGroupName: 'rg', serverName: 'db' }

  test.each(['Group', 'group'])('%s passes if it is listed or in the types', (principalType) => {
    expect(problems(type, { ...administrator, principalType })).toEqual([])
  })

  test('no other value passes, and no other property', () => {
    expect(problems(type, { ...administrator, principalType: 'GROUP' })).toHaveLength(1)
    expect(problems(POOL, { ...POOL_ARGS, mode: 'Group' })).toHaveLength(1)
  })
})

describe('types', () => {
  test('rejects a type that the pinned SDK does not have', async () => {
    const types = [
      'azure-native:containerservice:AgentPol',
      'azure-native:nowhere:Thing',
      'azure-native:../../etc:X',
    ]
    const loaded = await loadShapes(types, cache)

    expect(
      types.flatMap((type) => checkShapes(planOf(type, {}), loaded)).map(({ message }) => message),
    ).toEqual([
      'azure-native:containerservice:AgentPol is not in the pinned azure-native: check its spelling',
      'azure-native:nowhere:Thing is not in the pinned azure-native: check its spelling',
      'the shape of azure-native:../../etc:X was not loaded',
    ])
  })

  test('rejects a type whose shape was not loaded', () => {
    expect(checkShapes(planOf(POOL, POOL_ARGS), new Map())).toHaveLength(1)
  })

  test('reports the types that it cannot check', () => {
    const preview = 'azure-native_containerservice_v20260502preview:containerservice:AgentPool'

    expect(checkShapes(planOf(preview, {}), shapes)).toEqual([])
    expect(typesWithoutShape(planOf(preview, {}))).toEqual([preview])
    expect(typesWithoutShape(planOf(POOL, {}))).toEqual([])
  })
})

test('contains the patterns and ranges of the service for every property of the SDK', () => {
  const held = (type: string) => JSON.stringify(shapes.get(type)?.schema)
  const count = (text: string) =>
    text.match(/"(?:pattern|m(?:ax|in)imum|m(?:ax|in)Length|m(?:ax|in)Items)":/g)?.length

  // Counts for the pinned versions. A lower count means that a path of the mappers was lost.
  expect(count(held(CLUSTER))).toBe(45)
  expect(count(held(POOL))).toBe(27)
})
