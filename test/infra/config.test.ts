import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { parseInfraConfig, parseStackFile } from '../../infra/config-schema.ts'
import { readStackText } from '../../infra/stack-file.ts'
import { writeStackText } from './write-stack-text.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const stackFile = (stack: string) =>
  parse(readFileSync(resolve(ROOT, `Pulumi.${stack}.yaml`), 'utf8')).config as Record<string, unknown>

const inFile = (config: Record<string, unknown>) => readStackText(writeStackText({ config }))

type Section = Record<string, unknown>
const record = (stack: string): Section =>
  Object.fromEntries(Object.entries(stackFile(stack)).map(([key, value]) => [key.slice(12), value]))
const withSection = (stack: string, key: string, change: Section) => {
  const base = record(stack)
  return { ...base, [key]: { ...(base[key] as Section | undefined), ...change } }
}
const problemsOf = (config: Section) => {
  const parsed = parseInfraConfig(config)
  return 'problems' in parsed ? parsed.problems.map(({ path, message }) => `${path}: ${message}`) : []
}

test.each(['dev', 'prod', 'pr-example'])('the stack file of %s is valid', (stack) => {
  const parsed = parseStackFile(inFile(stackFile(stack)))

  expect(parsed).toHaveProperty('config')
})

test('the parsed configuration is deeply frozen', () => {
  const parsed = parseStackFile(inFile(stackFile('dev')))

  if (!('config' in parsed) || !('pools' in parsed.config)) throw new Error('no platform')
  const { kata } = parsed.config.pools
  expect(() => Object.assign(kata, { max: 99 })).toThrow(TypeError)
})

test('reports all mistakes of several sections at once, including mistakes between sections', () => {
  const config = {
    ...record('dev'),
    tenantId: 'nobody',
    locaton: 'eastus2',
    database: undefined,
    network: { podCidr: '10.0.0.0/16' },
    pools: { kata: { size: 'Standard_D8ps_v5' } },
  }

  expect(problemsOf(config)).toEqual([
    'locaton: is not a setting; infra/config-sections.ts lists all settings',
    'tenantId: must be a GUID in lower case',
    'database: is missing: it needs adminGroup',
    'network.serviceCidr: 10.0.0.0/16 overlaps podCidr 10.0.0.0/16: give it another range',
    'pools.kata.size: Standard_D8ps_v5 is Arm64, which Kata pods cannot run on',
  ])
})

const BASE_POOL = { size: 'Standard_D8ds_v5' }
const PLANTED: readonly (readonly [mistake: string, config: Section, found: RegExp])[] = [
  ['no kind', { ...record('dev'), kind: undefined }, /^kind: must be "platform"/],
  [
    'pods in the network',
    withSection('dev', 'network', { podCidr: '10.40.128.0/17' }),
    /^network\.podCidr: .*overlaps/,
  ],
  [
    'a range with stray bits',
    withSection('dev', 'network', { nodeCidr: '10.40.0.9/22' }),
    /^network\.nodeCidr/,
  ],
  [
    'a public range',
    withSection('dev', 'network', { podCidr: '20.0.0.0/16' }),
    /^network\.podCidr: .*not private/,
  ],
  [
    'a subnet outside',
    withSection('dev', 'network', { databaseCidr: '10.41.0.0/28' }),
    /databaseCidr: .*not in vnetCidr/,
  ],
  [
    'a subnet too small',
    withSection('dev', 'network', { databaseCidr: '10.40.5.0/29' }),
    /databaseCidr: .*too small/,
  ],
  [
    'too few pod ranges',
    withSection('dev', 'network', { podCidr: '10.244.0.0/22' }),
    /^network\.podCidr: has a \/24 for 4/,
  ],
  [
    'a Kata size on AMD',
    withSection('dev', 'pools', { kata: { size: 'Standard_D8as_v4' } }),
    /kata\.size: .*does not support nested virtualisation/,
  ],
  [
    'an unknown size',
    withSection('dev', 'pools', { kata: { size: 'Standard_Nope' } }),
    /kata\.size: must be a D, E/,
  ],
  [
    'a lone system node',
    withSection('dev', 'pools', { system: { min: 1 } }),
    /system\.min: must be at least 2/,
  ],
  [
    'a burstable system pool',
    withSection('dev', 'pools', { system: { size: 'Standard_B4ms_v2' } }),
    /must not be burst/,
  ],
  ['min above max', withSection('dev', 'pools', { app: { min: 9, max: 3 } }), /app\.min: 9 is above max 3/],
  [
    'a disk that does not fit',
    withSection('dev', 'pools', { kata: { osDiskGib: 512 } }),
    /does not fit on the local disk/,
  ],
  [
    'an unknown key far inside',
    withSection('dev', 'pools', { kata: { ...BASE_POOL, fips: true } }),
    /^pools\.kata: /,
  ],
  [
    'more sandboxes than fit',
    withSection('dev', 'sandbox', { max: 500 }),
    /sandbox\.max: 500 .*\(cpu runs out\)/,
  ],
  ['too little quota', withSection('dev', 'quota', { standardDDSv5Family: 40 }), /fewer than the 88/],
  [
    'everyone at the API server',
    withSection('dev', 'apiServer', { ranges: ['0.0.0.0/0'] }),
    /apiServer\.ranges\.0/,
  ],
  ['no range at the API server', withSection('dev', 'apiServer', { ranges: [] }), /apiServer\.ranges/],
  [
    'FQDN mode without its engine',
    withSection('dev', 'egress', { mode: 'fqdn', advancedPolicies: 'None' }),
    /FQDN or L7/,
  ],
  ['a misspelt mode', withSection('dev', 'egress', { mode: 'fqnd' }), /^egress\.mode/],
  [
    'ranges on a Standard registry',
    withSection('dev', 'registry', { allowedRanges: [] }),
    /registry\.sku: must be Premium/,
  ],
  ['an image by tag', withSection('dev', 'controller', { image: 'a.azurecr.io/b:v1' }), /controller\.image/],
  [
    'a preview without the switch',
    {
      ...record('dev'),
      controller: { install: 'aksExtension', extensionType: 'Microsoft.X', version: '1.0.0' },
    },
    /^previewFeatures: must be true/,
  ],
  [
    'a preview in prod',
    { ...record('prod'), previewFeatures: true },
    /^previewFeatures: must be false in prod/,
  ],
  ['an unprotected prod', { ...record('prod'), protect: 'false' }, /^protect: must be true in prod/],
  [
    'a prod on one database',
    withSection('prod', 'database', { highAvailability: false }),
    /highAvailability: must be/,
  ],
  [
    'a vault name with "--"',
    withSection('dev', 'names', { userTokenVault: 'a--b' }),
    /names\.userTokenVault/,
  ],
  [
    'a model of another subscription',
    {
      ...record('dev'),
      model: {
        resourceId:
          '/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/a/providers/Microsoft.CognitiveServices/accounts/b',
        host: 'b.openai.azure.com',
      },
    },
    /model\.resourceId: must be in subscription/,
  ],
  [
    'a model without the egress proxy',
    {
      ...withSection('dev', 'egress', { mode: 'fqdn' }),
      model: {
        resourceId: `/subscriptions/${record('dev')['subscriptionId']}/resourceGroups/a/providers/Microsoft.CognitiveServices/accounts/b`,
        host: 'b.openai.azure.com',
      },
    },
    /^model: needs egress\.mode proxy.* from fqdn/,
  ],
  ['an invalid slug', { ...record('pr-example'), slug: 'Feature/X' }, /^slug: /],
  ['a key of the platform in a slice', { ...record('pr-example'), pools: {} }, /^pools: is not a setting/],
  [
    'no time to expire',
    { ...record('pr-example'), expires: undefined },
    /^expires: is missing: must be a time/,
  ],
]

test.each(PLANTED)('reports exactly one problem for %s', (_mistake, config, found) => {
  const problems = problemsOf(config)

  expect(problems).toHaveLength(1)
  expect(problems[0]).toMatch(found)
})

test('rejects a secret and an unused key in a stack file', () => {
  const parsed = parseStackFile(
    inFile({
      ...stackFile('dev'),
      'agentweaver:tenantId': { secure: 'AAABAA' },
      'other:key': 'x',
      bare: 'x',
    }),
  )

  const problems = 'problems' in parsed ? parsed.problems.map(({ path }) => path) : []
  expect(problems).toEqual(['agentweaver:tenantId', 'other:key', 'bare', 'tenantId'])
})
