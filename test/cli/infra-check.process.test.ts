import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { parseStackFile } from '../../infra/config-schema.ts'
import { readStackText } from '../../infra/stack-file.ts'
import { writeStackText } from '../infra/write-stack-text.ts'
import { aFolder, runCli } from './run-cli.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const raw = (stack: string) => readFileSync(join(ROOT, `Pulumi.${stack}.yaml`), 'utf8')
const ACCOUNT = '/resourceGroups/models/providers/Microsoft.CognitiveServices/accounts/a'
const key = (name: string) => `agentweaver:${name}`

/** Creates a folder with an edited stack file `dev` and the given plans. */
async function aProject(alter: (config: Record<string, unknown>) => void = () => undefined, plan?: object) {
  const cwd = await aFolder('aw-infra-')
  const file = parse(raw('dev')) as { config: Record<string, unknown> }
  alter(file.config)
  writeFileSync(join(cwd, 'Pulumi.dev.yaml'), writeStackText(file))
  if (plan) {
    mkdirSync(join(cwd, 'plans'))
    writeFileSync(join(cwd, 'plans/dev.json'), JSON.stringify(plan))
  }
  const check = (...argv: string[]) => runCli(['infra', 'check', ...argv], { cwd })
  return { cwd, check }
}

test.each(['dev', 'prod', 'pr-example'])('accepts the stack file %s of this repository', async (stack) => {
  const { status, stdout, stderr } = await runCli(['infra', 'check', stack], { cwd: ROOT })

  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  expect(stdout).toContain(`Pulumi.${stack}.yaml: right`)
})

test('prints the capacity that a file pays for (sandboxes, warm node-hours, vCPUs), and no price', async () => {
  const { check, cwd } = await aProject()
  cpSync(join(ROOT, 'environments'), join(cwd, 'environments'), { recursive: true })

  const { status, stdout } = await check('dev', '--json')
  const { ok, capacity } = JSON.parse(stdout)

  expect({ status, ok }).toEqual({ status: 0, ok: true })
  // 7820m offered, 520m of it for DaemonSets, 1000m each: 7 a node; 5 warm ones hold one node of 730 hours a month.
  expect(capacity).toMatchObject({
    perNode: 7,
    limit: 'cpu',
    inAll: 35,
    warm: { sandboxes: 5, nodes: 1, nodeHoursPerMonth: 730 },
  })
  expect(capacity.classes.map(({ perNode }: { perNode: number }) => perNode)).toEqual([7, 14])
  expect(capacity.vcpus).toEqual([{ family: 'standardDDSv5Family', most: 4 * 4 + 4 * 6 + 8 * 6, quota: 100 }])
  expect((await check('dev')).stdout).not.toMatch(/[$€]|USD|EUR/)
})

test('names a mode of egress that differs from the environment file', async () => {
  const { check, cwd } = await aProject((config) => {
    config[key('egress')] = { mode: 'closed' }
  })
  const without = await check('dev')
  cpSync(join(ROOT, 'environments'), join(cwd, 'environments'), { recursive: true })

  const { status, stdout } = await check('dev')

  expect(without.status).toBe(0)
  const { egress } = JSON.parse(readFileSync(join(ROOT, 'environments/dev.json'), 'utf8'))
  expect(stdout).toBe(
    `Pulumi.dev.yaml: egress.mode: is closed, but environments/dev.json has ${egress.mode}: write the same mode in both files\n`,
  )
  expect(status).toBe(1)
})

test('names a model resource that differs from the one of the environment file', async () => {
  const { check, cwd } = await aProject((config) => {
    config[key('model')] = {
      resourceId: `/subscriptions/${config[key('subscriptionId')]}${ACCOUNT}`,
      host: 'a.openai.azure.com',
    }
  })
  cpSync(join(ROOT, 'environments'), join(cwd, 'environments'), { recursive: true })
  const file = join(cwd, 'environments/dev.json')
  const environment = JSON.parse(readFileSync(file, 'utf8'))
  const offer = (modelHost: string) => {
    environment.infra.azure.modelHost = modelHost
    environment.models.foundry = { names: ['gpt-5'] }
    environment.sizes.egressProxy.credentials = environment.sizes.egressProxy.container
    writeFileSync(file, JSON.stringify(environment))
  }
  // The stack names the resource first: the environment file gets it after "pulumi up".
  expect((await check('dev')).status).toBe(0)
  offer('b.openai.azure.com')
  const other = await check('dev')
  offer('a.openai.azure.com')

  expect(other).toMatchObject({
    status: 1,
    stdout:
      'Pulumi.dev.yaml: model.host: is a.openai.azure.com, but environments/dev.json has models.foundry and the resource b.openai.azure.com: name the same resource in both files\n',
  })
  expect((await check('dev')).status).toBe(0)
})

test('lists every mistake with its key and a remedy', async () => {
  const { check } = await aProject((config) => {
    config[key('network')] = { podCidr: '10.0.0.0/16' }
    config[key('pools')] = { kata: { size: 'Standard_D8ps_v5' } }
    config[key('locaton')] = 'eastus2'
    config[key('names')] = { userTokenVault: 'ends-with-a-hyphen-' }
    config[key('quota')] = { standardDDSv5Family: 8 }
  })

  const { status, stdout } = await check('dev')

  expect(status).toBe(1)
  for (const line of [
    /^Pulumi\.dev\.yaml: locaton: /m,
    /^Pulumi\.dev\.yaml: network\.serviceCidr: .*overlaps/m,
    /^Pulumi\.dev\.yaml: pools\.kata\.size: .*Arm64/m,
    /^Pulumi\.dev\.yaml: names\.userTokenVault: /m,
    /^Pulumi\.dev\.yaml: quota\.standardDDSv5Family: 8 vCPUs are fewer/m,
  ])
    expect(stdout).toMatch(line)
})

const resource = (type: string, inputs: object) => ({ type: `azure-native:${type}`, inputs })
const APPLIED = {
  resources: [
    resource('containerservice:ManagedCluster', {
      location: 'eastus2',
      networkProfile: { podCidr: '10.244.0.0/16', serviceCidr: '10.0.0.0/16' },
    }),
    resource('network:Subnet', { addressPrefix: '10.40.0.0/22' }),
    resource('network:Subnet', { addressPrefix: '10.40.4.0/28' }),
    resource('network:Subnet', { addressPrefix: '10.40.5.0/28' }),
    resource('network:Subnet', { addressPrefix: '10.40.6.0/26' }),
    resource('containerservice:AgentPool', {
      agentPoolName: 'kata1',
      vmSize: 'Standard_D8ds_v5',
      availabilityZones: ['1', '2', '3'],
      maxPods: 110,
      osDiskSizeGB: 256,
    }),
    resource('dbforpostgresql:Server', {
      version: '17',
      storage: { storageSizeGB: 128 },
      backup: { geoRedundantBackup: 'Disabled' },
    }),
  ],
}

test('accepts a file that equals the applied plan', async () => {
  const { check } = await aProject(undefined, APPLIED)

  const { status, stdout } = await check('dev')

  expect({ status, stdout }).toEqual({
    status: 0,
    stdout: expect.stringContaining('compared with plans/dev.json'),
  })
})

const EDITS: readonly (readonly [string, (config: Record<string, unknown>) => void, RegExp])[] = [
  [
    'the region',
    (config) => Object.assign(config, { [key('location')]: 'westus3' }),
    /location: is westus3, but was created as eastus2/,
  ],
  [
    'the pod range',
    (config) => Object.assign(config, { [key('network')]: { podCidr: '10.245.0.0/16' } }),
    /network\.podCidr: .*cannot change/,
  ],
  [
    'a subnet',
    (config) => Object.assign(config, { [key('network')]: { nodeCidr: '10.40.8.0/22' } }),
    /network\.nodeCidr: .*not one of the existing ranges/,
  ],
  [
    'the size of a pool',
    (config) =>
      Object.assign(config, { [key('pools')]: { kata: { size: 'Standard_D16ds_v5' } }, [key('quota')]: {} }),
    /pools\.kata\.size: .*raise pools\.kata\.generation to 2/,
  ],
  [
    'the zones of a pool',
    (config) => Object.assign(config, { [key('pools')]: { kata: { zones: ['1'] } } }),
    /pools\.kata\.zones: /,
  ],
  [
    'a smaller disk of the database',
    (config) => Object.assign(config[key('database')] as object, { storageGib: 64 }),
    /database\.storageGib: .*only grows/,
  ],
  [
    'an older version of the database',
    (config) => Object.assign(config[key('database')] as object, { version: '16' }),
    /database\.version: /,
  ],
]
test.each(EDITS)('rejects a change of %s after creation', async (_, edit, found) => {
  const { check } = await aProject(edit, APPLIED)

  const { status, stdout } = await check('dev')

  expect({ status, stdout }).toEqual({ status: 1, stdout: expect.stringMatching(found) })
  expect(stdout.trim().split('\n')).toHaveLength(1)
})

test('accepts a changed pool of the next generation', async () => {
  const { check } = await aProject(
    (config) =>
      Object.assign(config, {
        [key('pools')]: { kata: { size: 'Standard_D16ds_v5', generation: 2 } },
        [key('quota')]: {},
      }),
    APPLIED,
  )

  expect((await check('dev')).status).toBe(0)
})

test.each([
  [['none'], /no file Pulumi\.none\.yaml/],
  [['dev', '--against', 'nothing.json'], /no plan nothing\.json/],
  [['./broken.yaml'], /broken\.yaml: /],
  [['./list.yaml'], /no mapping under/],
  [[], /missing required argument/],
])('reports that %j cannot be read', async (argv, expected) => {
  const { check, cwd } = await aProject()
  writeFileSync(join(cwd, 'broken.yaml'), 'config:\n  a: 1\n  a: 2\n')
  writeFileSync(join(cwd, 'list.yaml'), '- 1\n')

  const { status, stderr } = await check(...argv)

  expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringMatching(expected) })
})

test('the file of the example preview is what the command writes', () => {
  const parsed = parseStackFile(readStackText(raw('pr-example')))

  expect(parsed).toMatchObject({ config: { kind: 'slice', slug: 'example-50d858', branch: 'example' } })
})

test('the page shows the output of the command', async () => {
  const page = readFileSync(join(ROOT, 'docs/infra.md'), 'utf8')
  const [, shown] = /<!-- generated: check -->\n```\n([\s\S]*?)```\n<!-- end -->/.exec(page) ?? []

  const { stdout } = await runCli(['infra', 'check', 'dev'], { cwd: ROOT })

  expect(stdout).toBe(shown)
})
