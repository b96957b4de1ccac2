import { describe, expect, test } from 'vitest'
import { CONFIG_NAMESPACE } from '../../infra/config-schema.ts'
import { fitsAzure } from '../../infra/model/naming.ts'
import {
  BUILT_IN_ROLES,
  SECRET_GETTER,
  SECRET_WRITER,
  secretGetter,
  secretWriter,
} from '../../infra/model/roles.ts'
import { stateNames } from '../../infra/state/state-names.ts'
import type { Deployment } from './bicep/deployment.ts'
import {
  assignmentsOf,
  assignmentsTo,
  byType,
  customRoleOf,
  customRolesOf,
  deploymentsOf,
  grantableRolesOf,
  grantConditionOf,
  resourcesOf,
  stateDeploymentOf,
} from './state-deployment.ts'
import { stateConfigOf } from './state-rig.ts'

const DEV = stateConfigOf('dev')
const PROD = stateConfigOf('prod')

describe.each([
  ['dev', DEV],
  ['prod', PROD],
])('the deployment of %s', (environment, config) => {
  test('is the same each time, so that deploying it again changes nothing', () => {
    expect(stateDeploymentOf(config)).toEqual(stateDeploymentOf(stateConfigOf(environment)))
    const ids = resourcesOf(config).map(({ id }) => id)
    expect(ids.length).toBeGreaterThan(30)
    expect(new Set(ids).size).toBe(ids.length)
  })

  test('assigns a custom role only after it exists, and to an identity only after it exists', () => {
    const whole = stateDeploymentOf(config)
    const late = assignmentsOf(config).flatMap(({ resource, principal }) => {
      const awaited = awaitedBy(whole, resource.id)
      const needed = [
        String(resource.properties['roleDefinitionId']),
        principal.replace(/^reference\((.*)\).*$/, '$1'),
      ]
      const made = resourcesOf(config).filter(({ id }) => needed.includes(id))
      return made
        .filter(({ id }) => !awaited.has(id))
        .map(({ id }) => `${resource.symbol} does not wait for ${id}`)
    })

    expect(late).toEqual([])
  })

  test('creates a resource only after its resource group and the resource that it is assigned on', () => {
    const whole = stateDeploymentOf(config)
    const made = resourcesOf(config)
    const late = made.flatMap(({ id, scope, symbol }) => {
      const isMade = made.some((one) => one.id === scope)
      return isMade && !awaitedBy(whole, id).has(scope) ? [`${symbol} does not wait for ${scope}`] : []
    })

    expect(late).toEqual([])
    expect(made.filter(({ scope }) => scope.endsWith('/containers/state')).length).toBeGreaterThan(2)
  })

  test('has names that Azure accepts, and those that the command prints', () => {
    const { storage, vault, identity } = stateNames(config)
    const names = (type: string) => byType(config, type).map(({ name }) => name)
    const groups = names('Microsoft.Resources/resourceGroups')
    const identities = names('Microsoft.ManagedIdentity/userAssignedIdentities')

    expect(names('Microsoft.Storage/storageAccounts')).toEqual([storage])
    expect(storage).toMatch(/^[a-z0-9]{3,24}$/)
    expect(names('Microsoft.KeyVault/vaults')).toEqual([vault])
    expect(fitsAzure('vault', vault)).toBe(true)
    expect(groups.filter((name) => !fitsAzure('resourceGroup', name))).toEqual([])
    const duties = environment === 'dev' ? (['up', 'plan', 'preview'] as const) : (['up', 'plan'] as const)
    expect(identities).toEqual(duties.map(identity))
    expect(identities.filter((name) => !fitsAzure('identity', name))).toEqual([])
    const roles = byType(config, 'Microsoft.Authorization/roleDefinitions').map(
      ({ properties }) => properties['roleName'],
    )
    const suffix = ` (${environment} ${config.subscriptionId.slice(0, 8)})`
    expect(roles.filter((name) => !String(name).endsWith(suffix))).toEqual([])
  })

  test('creates the two roles that the program looks up by their GUIDs', () => {
    const { subscriptionId } = config
    const ids = (name: string) => customRoleOf(config, name).id

    expect(ids('Agentweaver secret getter')).toBe(
      secretGetter(subscriptionId, `agentweaver-${environment}`).definitionId,
    )
    expect(ids('Agentweaver secret writer')).toBe(
      secretWriter(subscriptionId, `agentweaver-${environment}`).definitionId,
    )
  })

  test('prints the backend and the key of the state, and an id for each identity', () => {
    const { storage, vault } = stateNames(config)
    const { outputs } = stateDeploymentOf(config)

    expect(outputs).toMatchObject({
      backendUrl: `azblob://state?storage_account=${storage}`,
      secretsProvider: `azurekeyvault://${vault}.vault.azure.net/keys/state`,
      upClientId: expect.stringContaining('-ci-up).clientId'),
      upPrincipalId: expect.stringContaining('-ci-up).principalId'),
      planClientId: expect.stringContaining('-ci-plan).clientId'),
      previewClientId: environment === 'dev' ? expect.stringContaining('-ci-preview).clientId') : '',
    })
  })

  test('trusts only the configured environments of one repository, and no branch, tag or pull request', () => {
    const credentials = byType(
      config,
      'Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials',
    )

    const { gate } = stateNames(config)
    const gates =
      environment === 'dev' ? [gate('up'), gate('plan'), gate('preview')] : [gate('up'), gate('plan')]
    expect(credentials.map(({ properties }) => String(properties['subject']).split(':').at(-1))).toEqual(
      gates,
    )
    for (const { properties } of credentials) {
      expect(properties['subject']).toMatch(
        new RegExp(`^repo:agentweaver/agentweaver-sandbox:environment:${environment}(?:-plan|-preview)?$`),
      )
      expect(properties['audiences']).toEqual(['api://AzureADTokenExchange'])
    }
  })

  test('keeps state in an account without key access, with protection against accidental deletion', () => {
    const [account] = byType(config, 'Microsoft.Storage/storageAccounts')
    const [vault] = byType(config, 'Microsoft.KeyVault/vaults')
    const [blobs] = byType(config, 'Microsoft.Storage/storageAccounts/blobServices')

    expect(account?.properties).toMatchObject({
      allowSharedKeyAccess: false,
      allowBlobPublicAccess: false,
      minimumTlsVersion: 'TLS1_2',
      supportsHttpsTrafficOnly: true,
    })
    expect(vault?.properties).toMatchObject({ enableRbacAuthorization: true, enablePurgeProtection: true })
    expect(blobs?.properties).toMatchObject({
      isVersioningEnabled: true,
      deleteRetentionPolicy: { enabled: true },
    })
    expect(byType(config, 'Microsoft.Authorization/locks')).toHaveLength(1)
  })
})

test('state is reachable only from the configured ranges, if there are any', () => {
  const [account] = byType(PROD, 'Microsoft.Storage/storageAccounts')
  const [vault] = byType(PROD, 'Microsoft.KeyVault/vaults')
  const closed = { defaultAction: 'Deny', ipRules: [{ value: '203.0.113.0/24' }], bypass: 'None' }

  expect([account?.properties['networkAcls'], vault?.properties['networkAcls']]).toEqual([closed, closed])
})

/** The ids of all resources that the deployment creates before a resource. */
function awaitedBy(whole: Deployment, id: string): Set<string> {
  const own = whole.resources.find((one) => one.id === id)
  const module = whole.modules.find(({ deployment }) => deployment.resources.some((one) => one.id === id))
  const inner = module === undefined ? [] : [...awaitedBy(module.deployment, id)]
  const symbols = symbolsBefore(whole, own?.symbol ?? module?.symbol ?? '')
  const outer = [
    ...whole.resources.filter(({ symbol }) => symbols.has(symbol)),
    ...whole.modules
      .filter(({ symbol }) => symbols.has(symbol))
      .flatMap(({ deployment }) => deploymentsOf(deployment).flatMap(({ resources }) => resources)),
  ]
  return new Set([...inner, ...outer.map((one) => one.id)])
}

function symbolsBefore(deployment: Deployment, symbol: string, found = new Set<string>()): Set<string> {
  for (const next of deployment.waitsFor.get(symbol) ?? [])
    if (!found.has(next)) symbolsBefore(deployment, next, found.add(next))
  return found
}

describe('rights', () => {
  const custom = customRolesOf(DEV)

  test('no custom role writes roles or grants, lists keys, or has a write wildcard', () => {
    expect(custom.length).toBe(11)
    for (const { actions, dataActions } of custom)
      for (const action of [...actions, ...dataActions]) {
        expect(action).not.toMatch(
          /^\*|roleAssignments\/(?:write|delete)|roleDefinitions\/(?:write|delete)|listKeys|elevateAccess/i,
        )
        expect(action.includes('*') && !action.endsWith('/read'), action).toBe(false)
      }
  })

  test('the role that writes the credentials of users reads none, and cannot make a deleted one readable', () => {
    const writer = custom.find(({ name }) => name === 'Agentweaver secret writer')

    expect(writer?.actions).toEqual([])
    expect(writer?.dataActions).toEqual([
      'Microsoft.KeyVault/vaults/secrets/delete',
      'Microsoft.KeyVault/vaults/secrets/setSecret/action',
    ])
  })

  test.each([
    [SECRET_GETTER.name, ['Microsoft.KeyVault/vaults/secrets/getSecret/action']],
    [
      SECRET_WRITER.name,
      ['Microsoft.KeyVault/vaults/secrets/delete', 'Microsoft.KeyVault/vaults/secrets/setSecret/action'],
    ],
  ])('%s may do nothing else', (role, dataActions) => {
    expect(customRoleOf(DEV, role)).toMatchObject({ actions: [], dataActions })
  })

  test.each([
    ['dev', DEV],
    ['prod', PROD],
  ])(
    'the deploying identity of %s has these roles, and the operators only those on the state',
    (_, config) => {
      const roles = assignmentsTo(config, 'up').map(({ role }) => role)
      const given = assignmentsOf(config).filter(
        ({ resource }) => resource.properties['principalType'] === 'Group',
      )

      expect(roles.sort()).toEqual([
        'Agentweaver deployer',
        'Agentweaver state sealer',
        'Agentweaver state writer',
        'Azure Kubernetes Service RBAC Cluster Admin',
        'Role Based Access Control Administrator',
      ])
      expect(given.map(({ principal, role }) => [principal, role])).toEqual([
        [config.operators[0], 'Agentweaver state writer'],
        [config.operators[0], 'Agentweaver state sealer'],
      ])
    },
  )

  test('the planning identity may change nothing', () => {
    const roles = assignmentsTo(DEV, 'plan').map(({ role }) => role)

    expect(roles.sort()).toEqual([
      'Agentweaver cluster planner',
      'Agentweaver planner',
      'Agentweaver state reader',
      'Agentweaver state sealer',
      'Azure Kubernetes Service RBAC Reader',
      'Reader',
    ])
  })

  test('the preview identity writes credentials of identities only in the group of slices', () => {
    const inGroup = (scope: string) => scope.endsWith('/resourceGroups/agentweaver-dev-previews')
    const [inOneGroup, elsewhere] = [true, false].map((isInGroup) =>
      assignmentsTo(DEV, 'preview')
        .filter(({ resource }) => inGroup(resource.scope) === isInGroup)
        .map(({ role }) => role),
    )

    expect(inOneGroup).toEqual(['Agentweaver previewer'])
    expect(elsewhere?.sort()).toEqual([
      'Agentweaver planner',
      'Agentweaver slice maker',
      'Agentweaver state sealer',
      'Agentweaver state writer',
      'Reader',
      'Role Based Access Control Administrator',
    ])
    expect(assignmentsOf(DEV).filter(({ role }) => role === 'Agentweaver previewer')).toHaveLength(1)
    const writers = custom.filter(({ actions }) =>
      actions.some((one) => one.includes('federatedIdentityCredentials/write')),
    )
    expect(writers.map((role) => role.name)).toEqual(['Agentweaver deployer', 'Agentweaver previewer'])
  })

  test('the promoting identity only reads images here, and the deployment of prod prints its id', () => {
    const granted = assignmentsOf(DEV).filter(({ principal }) => principal === DEV.promotedBy)

    expect(granted.map(({ role }) => role)).toEqual(['Agentweaver image reader'])
    expect(JSON.stringify(resourcesOf({ ...DEV, promotedBy: undefined }))).not.toMatch(
      /image reader|promoter/,
    )
    expect(stateDeploymentOf(PROD).outputs).toHaveProperty('upPrincipalId')
  })

  test('prod has no preview identity', () => {
    expect(JSON.stringify(stateDeploymentOf(PROD))).not.toMatch(/ci-preview|-previews|previewer/i)
  })

  const OWNER = '8e3af657-a8ff-443c-a75c-2fe8c4bcb635'
  const ADMINISTRATOR = 'f58310d9-a9f6-439a-9e8d-f62e7b41a168'
  const condition = grantConditionOf(DEV, 'up')
  test.each(['write', 'delete'] as const)('the condition holds for who would %s a grant', (verb) => {
    const asks = (role: string, principal: string) => permits(condition, { verb, role, principal })

    expect(asks(BUILT_IN_ROLES.AcrPull, 'ServicePrincipal')).toBe(true)
    expect(asks(OWNER, 'ServicePrincipal')).toBe(false)
    expect(asks(ADMINISTRATOR, 'ServicePrincipal')).toBe(false)
    expect(asks(BUILT_IN_ROLES.AcrPull, 'User')).toBe(false)
    expect(asks(BUILT_IN_ROLES['Azure Kubernetes Service RBAC Cluster Admin'], 'ServicePrincipal')).toBe(
      false,
    )
  })

  test('a platform may grant each role of the program, except the one that administers the cluster', () => {
    const { 'Azure Kubernetes Service RBAC Cluster Admin': administrator, ...others } = BUILT_IN_ROLES
    const own = ['secret getter', 'secret writer'].map((name) => customRoleOf(DEV, `Agentweaver ${name}`).id)
    const expected = [...Object.values(others), ...own.map((id) => id.split('/').at(-1) ?? '')]

    expect(grantableRolesOf(DEV, 'up').sort()).toEqual(expected.sort())
    expect(expected).not.toContain(administrator)
  })

  test('a slice may grant only the roles on secrets, and only to identities', () => {
    const own = ['secret getter', 'secret writer'].map((name) => customRoleOf(DEV, `Agentweaver ${name}`).id)
    const asks = (role: string, principal: string) =>
      permits(grantConditionOf(DEV, 'preview'), { verb: 'write', role, principal })

    expect(grantableRolesOf(DEV, 'preview').sort()).toEqual(
      [BUILT_IN_ROLES['Key Vault Secrets User'], ...own.map((id) => id.split('/').at(-1) ?? '')].sort(),
    )
    expect(asks(BUILT_IN_ROLES['Key Vault Secrets User'], 'ServicePrincipal')).toBe(true)
    expect(asks(BUILT_IN_ROLES['Key Vault Secrets User'], 'Group')).toBe(false)
    expect(asks(BUILT_IN_ROLES['Network Contributor'], 'ServicePrincipal')).toBe(false)
  })

  test('the preview identity writes only the state of previews', () => {
    const conditions = assignmentsTo(DEV, 'preview').flatMap(({ resource, condition: text = '' }) =>
      resource.scope.endsWith('/containers/state') ? [text] : [],
    )
    const [, glob = ''] =
      /^\(\(.*\) OR \(@Resource\[.*:path\] StringLike '([^']+)'\)\)$/.exec(conditions[0] ?? '') ?? []
    const writes = (path: string) =>
      new RegExp(`^${glob.replaceAll('.', '\\.').replaceAll('*', '.*')}$`).test(path)

    expect(conditions).toHaveLength(1)
    const changes = customRoleOf(DEV, 'Agentweaver state writer').dataActions.filter(
      (one) => !one.endsWith('/read'),
    )
    expect(changes.length).toBeGreaterThan(2)
    expect(changes.filter((one) => !conditions[0]?.includes(`!(ActionMatches{'${one}'})`))).toEqual([])
    expect(writes(`.pulumi/stacks/${CONFIG_NAMESPACE}/pr-a-000000.json`)).toBe(true)
    expect(writes(`.pulumi/locks/organization/${CONFIG_NAMESPACE}/pr-a-000000/1.json`)).toBe(true)
    for (const path of [
      `.pulumi/stacks/${CONFIG_NAMESPACE}/dev.json`,
      `.pulumi/locks/organization/${CONFIG_NAMESPACE}/dev/1.json`,
      '.pulumi/meta.yaml',
    ])
      expect(writes(path)).toBe(false)
    const holders = resourcesOf(DEV).filter(({ properties }) =>
      String(properties['condition']).includes('StringLike'),
    )
    expect(holders).toHaveLength(1)
  })
})

type Asked = { readonly verb: 'write' | 'delete'; readonly role: string; readonly principal: string }

/** Evaluates a condition of the one form that is used here, as Azure's page on conditions has it. */
function permits(condition: string, { verb, role, principal }: Asked): boolean {
  const clauses = condition.split(' AND ((').map((clause, index) => (index === 0 ? clause : `((${clause}`))
  return clauses.every((clause) => {
    const [, action = ''] = /!\(ActionMatches\{'([^']+)'\}\)/.exec(clause) ?? []
    if (!action.endsWith(`/${verb}`)) return true
    const source = verb === 'write' ? '@Request' : '@Resource'
    if (clause.split(source).length !== 3) return false
    const [, roles = ''] = /GuidEquals \{([^}]+)\}/.exec(clause) ?? []
    const [, kinds = ''] = /StringEqualsIgnoreCase \{([^}]+)\}/.exec(clause) ?? []
    return roles.split(', ').includes(role) && kinds.includes(`'${principal}'`)
  })
}
