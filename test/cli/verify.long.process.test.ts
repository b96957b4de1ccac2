import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { parseStackFile } from '../../infra/config-schema.ts'
import { secretGetter, secretWriter } from '../../infra/model/roles.ts'
import { readStackText } from '../../infra/stack-file.ts'
import { aFolder, runCli } from './run-cli.ts'
import { aStandIn } from './stand-in.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const SUBSCRIPTION = String(
  parse(readFileSync(join(ROOT, 'Pulumi.dev.yaml'), 'utf8')).config['agentweaver:subscriptionId'],
)
const VAULT = `/subscriptions/${SUBSCRIPTION}/resourceGroups/agentweaver-dev/providers/Microsoft.KeyVault/vaults/agentweaver-dev-users`

function aNode(
  pool: string,
  more: { size?: string; kata?: boolean; taint?: boolean; ready?: boolean; memory?: string } = {},
) {
  const { size = 'Standard_D4ds_v5', kata = false, taint = kata, ready = true, memory = '28360Mi' } = more
  return {
    metadata: {
      name: `aks-${pool}`,
      labels: {
        'kubernetes.azure.com/agentpool': pool,
        'node.kubernetes.io/instance-type': size,
        ...(kata ? { 'agentweaver.io/kata': 'true' } : {}),
      },
    },
    spec: { taints: taint ? [{ key: 'sandbox', value: 'kata', effect: 'NoSchedule' }] : [] },
    status: {
      allocatable: { cpu: '7820m', memory, 'ephemeral-storage': '262144000Ki', pods: '110' },
      conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }],
      nodeInfo: { kernelVersion: '6.6.0', kubeletVersion: 'v1.36.0' },
      addresses: [{ type: 'InternalIP', address: '10.40.0.4' }],
    },
  }
}
const KATA = { size: 'Standard_D8ds_v5', kata: true }
const GOOD = [aNode('system'), aNode('system'), aNode('app1'), aNode('kata1', KATA)]
const getter = secretGetter(SUBSCRIPTION, 'agentweaver-dev')
const READS = {
  roleDefinitionName: 'Agentweaver secret getter (dev x)',
  roleDefinitionId: getter.definitionId,
  scope: VAULT,
}
const WRITES = {
  roleDefinitionName: 'Agentweaver secret writer (dev x)',
  roleDefinitionId: secretWriter(SUBSCRIPTION, 'agentweaver-dev').definitionId,
  scope: VAULT,
}

async function aCluster(answers: Record<string, unknown>, modelHost?: string) {
  const [kubectl, az] = await Promise.all([
    aStandIn('kubectl', 'kubectl-stand-in.ts'),
    aStandIn('az', 'kubectl-stand-in.ts'),
  ])
  for (const { state } of [kubectl, az]) writeFileSync(join(state, 'answers.json'), JSON.stringify(answers))
  const cwd = await aFolder('aw-verify-')
  mkdirSync(join(cwd, 'environments'))
  const environment = JSON.parse(readFileSync(join(ROOT, 'environments/dev.json'), 'utf8'))
  if (modelHost !== undefined) environment.infra.azure.modelHost = modelHost
  // Sandboxes have an identity only in mode `fqdn`.
  if (assignmentsOf(SANDBOXES) in answers)
    environment.infra.azure.identities.agentHost = { clientId: SANDBOXES }
  writeFileSync(join(cwd, 'environments/dev.json'), JSON.stringify(environment))
  cpSync(join(ROOT, 'Pulumi.dev.yaml'), join(cwd, 'Pulumi.dev.yaml'))
  const paths = [kubectl, az].map(({ env }) => env['PATH'] ?? '')
  return async (...argv: string[]) => {
    const { status, stdout, stderr } = await runCli(['verify', '--env', 'dev', '--json', ...argv], {
      cwd,
      // The fake az uses the same folder as the fake kubectl.
      env: { ...kubectl.env, PATH: paths.join(':') },
    })
    if (stdout === '') throw new Error(stderr)
    const checks: { check: string; state: string; detail: string }[] = JSON.parse(stdout).checks
    return {
      status,
      told: Object.fromEntries(checks.map(({ check, state, detail }) => [check, `${state}: ${detail}`])),
    }
  }
}
const nodes = (...items: object[]) => ({ 'get nodes': { items } })
const { identities } = JSON.parse(readFileSync(join(ROOT, 'environments/dev.json'), 'utf8')).infra.azure
const assignmentsOf = (clientId: string) => `role assignment list --assignee ${clientId}`
const rolesOf = (identity: 'egressProxy' | 'api', items: readonly object[]) => ({
  [assignmentsOf(identities[identity].clientId)]: items,
})
const SANDBOXES = 'c338a70d-ab7d-4a8e-83d1-64a71a4ed13b'
/** The identity of sandboxes has these roles, and the others have theirs. */
const roles = (...items: object[]) => ({
  [assignmentsOf(SANDBOXES)]: items,
  ...rolesOf('egressProxy', [READS]),
  ...rolesOf('api', [WRITES]),
})

/** The roles that the stack grants to an identity, as `az` lists them. */
function plannedRoles(identity: string) {
  const { resources } = JSON.parse(readFileSync(join(ROOT, 'plans/dev.json'), 'utf8')) as {
    resources: { type: string; name: string; inputs: { roleDefinitionId: string; scope: string } }[]
  }
  const found = resources
    .filter(({ type, name }) => type.endsWith(':RoleAssignment') && name.startsWith(`${identity}: `))
    .map(({ name, inputs: { roleDefinitionId, scope } }) => {
      const [, roleDefinitionName] = /: (.+) on /.exec(name) ?? []
      return { roleDefinitionName, roleDefinitionId, scope }
    })
  expect(found, identity).not.toEqual([])
  return found
}

test('the stack file for the comparison is valid', () => {
  expect(parseStackFile(readStackText(readFileSync(join(ROOT, 'Pulumi.dev.yaml'), 'utf8')))).toHaveProperty(
    'config',
  )
})

test('passes a cluster that matches its files', async () => {
  const verify = await aCluster({ ...nodes(...GOOD), ...roles(READS) })

  const { status, told } = await verify('--only', 'pools,capacity,taints,identity', '--strict')

  expect(told).toEqual({
    pools: expect.stringMatching(/^pass: 3 pools/),
    capacity: expect.stringMatching(/^pass/),
    taints: expect.stringMatching(/^pass/),
    identity: 'pass: 3 assignments',
  })
  expect(status).toBe(0)
})

test.each([
  [
    'a pool without a node',
    [aNode('system'), aNode('system'), aNode('app1')],
    'pools',
    /pool kata1 has 0 ready nodes/,
  ],
  [
    'a node that is not ready',
    [...GOOD.slice(1), aNode('system', { ready: false })],
    'pools',
    /pool system has 1 ready/,
  ],
  [
    'a node of another size',
    [...GOOD, aNode('app1', { size: 'Standard_B2s' })],
    'pools',
    /not a Standard_D4ds_v5/,
  ],
  [
    'a Kata node that lacks its taint',
    [...GOOD, aNode('kata1', { ...KATA, taint: false })],
    'taints',
    /lacks the taint/,
  ],
  [
    'a Kata node with less capacity',
    [...GOOD, aNode('kata1', { ...KATA, memory: '20000000Ki' })],
    'capacity',
    /offers 19531 memoryMib/,
  ],
])('fails with %s', async (...[, items, check, found]) => {
  const verify = await aCluster(nodes(...items))

  const { status, told } = await verify('--only', check)

  expect({ status, told: told[check] }).toEqual({ status: 1, told: expect.stringMatching(/^fail/) })
  expect(told[check]).toMatch(found)
})

const OWNER = {
  roleDefinitionName: 'Owner',
  roleDefinitionId: '/x/8e3af657',
  scope: `/subscriptions/${SUBSCRIPTION}`,
}
test.each([
  ['more than it needs', [READS, OWNER], /also has Owner/],
  ['nothing', [], /lacks Agentweaver secret getter/],
  ['the role on another vault', [{ ...READS, scope: `${VAULT}-other` }], /lacks .*also has/],
  ['a role that only has the name', [{ ...READS, roleDefinitionId: '/x/8e3af657' }], /lacks .*also has/],
])('fails for an identity with %s', async (...[, items, found]) => {
  const verify = await aCluster(roles(...items))

  const { status, told } = await verify('--only', 'identity')

  expect({ status, told: told['identity'] }).toEqual({ status: 1, told: expect.stringMatching(found) })
})

const CALLS = {
  roleDefinitionName: 'Cognitive Services OpenAI User',
  roleDefinitionId: `/subscriptions/${SUBSCRIPTION}/providers/Microsoft.Authorization/roleDefinitions/5e0bd9bd-7b93-4f28-af87-19fc36ad61bd`,
  scope: `/subscriptions/${SUBSCRIPTION}/resourceGroups/models/providers/Microsoft.CognitiveServices/accounts/aw`,
}
const MODEL = 'aw.openai.azure.com'
test.each([
  [
    'passes the role for the model at the egress proxy',
    [READS],
    [READS, CALLS],
    MODEL,
    /^pass: 4 assignments/,
  ],
  [
    'fails without it',
    [READS],
    [READS],
    MODEL,
    /^fail: .*egress proxy: it lacks Cognitive Services OpenAI User/,
  ],
  [
    'fails with it at sandboxes',
    [READS, CALLS],
    [READS, CALLS],
    MODEL,
    /^fail: .*sandboxes: it also has Cognitive/,
  ],
  [
    'fails with it where there is no model',
    [READS],
    [READS, CALLS],
    undefined,
    /^fail: .*egress proxy: it also has/,
  ],
  [
    'fails with the role on all accounts of a group',
    [READS],
    [READS, CALLS, { ...CALLS, scope: `/subscriptions/${SUBSCRIPTION}/resourceGroups/models` }],
    MODEL,
    /^fail: .*egress proxy: it also has/,
  ],
  [
    'fails with a role that only has the name',
    [READS],
    [READS, { ...CALLS, roleDefinitionId: '/x/8e3af657' }],
    MODEL,
    /^fail: .*lacks .*also has/,
  ],
  [
    'fails with a right on all secrets at the egress proxy',
    [READS],
    [READS, CALLS, { ...READS, scope: VAULT.replace(/\/providers.*/, '') }],
    MODEL,
    /^fail: .*egress proxy: it also has/,
  ],
])('%s', async (...[, ofSandboxes, ofProxy, model, found]) => {
  const answers = { ...roles(...ofSandboxes), ...rolesOf('egressProxy', ofProxy) }
  const verify = await aCluster(answers, model)

  expect((await verify('--only', 'identity')).told['identity']).toMatch(found)
})

test('passes the roles that the stack grants', async () => {
  const verify = await aCluster({
    ...rolesOf('egressProxy', plannedRoles('agentweaver-dev-egress-proxy')),
    ...rolesOf('api', plannedRoles('agentweaver-dev-api')),
  })

  expect((await verify('--only', 'identity')).told['identity']).toMatch(/^pass: 3 assignments/)
})

const READS_ALL = { roleDefinitionName: 'Key Vault Secrets User', roleDefinitionId: '/x/4633458b' }
test.each([
  ['the egress proxy cannot read', 'egressProxy', [], /egress proxy: it lacks Agentweaver secret getter/],
  ['the API cannot write', 'api', [], /API: it lacks Agentweaver secret writer/],
  ['the API can read by name', 'api', [WRITES, READS], /API: it also has Agentweaver secret getter/],
  [
    'the API can read one',
    'api',
    [WRITES, { ...READS_ALL, scope: `${VAULT}/secrets/a` }],
    /API: it also has Key Vault/,
  ],
  [
    'the API can read those of the whole group',
    'api',
    [WRITES, { ...READS_ALL, scope: VAULT.replace(/\/providers.*/, '') }],
    /API: it also has Key Vault/,
  ],
] as const)(
  "fails if the role assignments on users' tokens mean that %s",
  async (...[, who, items, found]) => {
    const verify = await aCluster({ ...roles(READS), ...rolesOf(who, items) })

    expect((await verify('--only', 'identity')).told['identity']).toMatch(found)
  },
)

test('a check that cannot run is not a pass', async () => {
  const verify = await aCluster({})

  const { status, told } = await verify()

  expect(Object.values(told).filter((one) => !one.startsWith('not run: '))).toEqual([])
  expect(Object.keys(told)).toHaveLength(9)
  expect(status).toBe(1)
})

test('with --strict, one check that was not run is a failure', async () => {
  const verify = await aCluster(nodes(...GOOD))

  expect((await verify('--only', 'pools,identity')).status).toBe(0)
  expect((await verify('--only', 'pools,identity', '--strict')).status).toBe(1)
})

test.each([
  [['--only', 'everything'], /--only/],
  [['--allowed', '$(id)'], /--allowed/],
  [['--allowed', 'host:99999'], /--allowed/],
])('rejects %j', async (argv, found) => {
  const verify = await aCluster({})

  await expect(verify(...argv)).rejects.toThrow(found)
})
