import { describe, expect, test } from 'vitest'
import { fitsAzure } from '../../infra/model/naming.ts'
import { BUILT_IN_ROLES } from '../../infra/model/roles.ts'
import * as rights from '../../infra/state/rights.ts'
import type { StateConfig } from '../../infra/state/state-config.ts'
import { stateNames } from '../../infra/state/state-names.ts'
import { stateTemplate } from '../../infra/state/state-template.ts'
import { byType, nested, resourcesOf, stateConfigOf, templatesOf } from './state-rig.ts'

const DEV = stateConfigOf('dev')
const PROD = stateConfigOf('prod')

describe.each([
  ['dev', DEV],
  ['prod', PROD],
])('the template of %s', (environment, config) => {
  test('is the same each time, so that deploying it again changes nothing', () => {
    expect(JSON.stringify(stateTemplate(config))).toBe(
      JSON.stringify(stateTemplate(stateConfigOf(environment))),
    )
    for (const { resources } of templatesOf(stateTemplate(config))) {
      const ids = resources.map(({ type, name, scope = '' }) => `${type} ${name} ${scope}`)
      expect(new Set(ids).size).toBe(ids.length)
    }
  })

  test('depends only on resources that it declares', () => {
    for (const { resources } of templatesOf(stateTemplate(config))) {
      const declared = new Set(resources.map(({ type, name }) => `${type} ${name}`))
      for (const { dependsOn = [] } of resources)
        for (const expression of dependsOn) expect(declared).toContain(targetOf(expression))
    }
  })

  test('has names that Azure accepts', () => {
    const { storage, vault, resourceGroup, identity } = stateNames(config)

    expect(storage).toMatch(/^[a-z0-9]{3,24}$/)
    expect(fitsAzure('vault', vault)).toBe(true)
    expect(fitsAzure('resourceGroup', resourceGroup)).toBe(true)
    expect(fitsAzure('identity', identity('preview'))).toBe(true)
  })

  test('trusts only the configured environments of one repository, and no branch, tag or pull request', () => {
    const credentials = byType(
      config,
      'Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials',
    )

    expect(credentials.length).toBe(environment === 'dev' ? 3 : 2)
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

/** `[resourceId('type', 'a', 'b')]`, with a subscription and a group before it or not, as `type a/b`. */
function targetOf(expression: string): string {
  const words = [...expression.matchAll(/'([^']*)'/g)].map(([, word]) => word ?? '')
  const type = words.findIndex((word) => word.startsWith('Microsoft.'))
  return `${words[type] ?? ''} ${words.slice(type + 1).join('/')}`
}

describe('rights', () => {
  const custom = Object.values(rights).filter(
    (one): one is rights.CustomRole => typeof one === 'object' && 'dataActions' in one && 'actions' in one,
  )

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

  test('the planning identity may change nothing', () => {
    const name = stateNames(DEV).identity('plan')
    const roles = rolesOf(DEV, 'plan')

    expect(name).toBe('agentweaver-dev-ci-plan')
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
    const previewer = resourcesOf(DEV).filter(
      (one) =>
        nested(one) !== undefined &&
        JSON.stringify(nested(one)).includes('roleAssignments') &&
        one.name === 'agentweaver-dev-previews',
    )

    expect(previewer.map(({ resourceGroup }) => resourceGroup)).toEqual(['agentweaver-dev-previews'])
    const subscriptionWide = stateTemplate(DEV).resources.filter(
      ({ type, properties }) =>
        type.endsWith('roleAssignments') && String(properties['principalId']).includes('previewPrincipal'),
    )
    const roles = subscriptionWide.map(({ properties }) =>
      nameOfRole(DEV, String(properties['roleDefinitionId'])),
    )
    expect(roles.sort()).toEqual([
      'Agentweaver planner',
      'Agentweaver slice maker',
      'Reader',
      'Role Based Access Control Administrator',
    ])
    const writers = custom.filter(({ actions }) =>
      actions.some((one) => one.includes('federatedIdentityCredentials/write')),
    )
    expect(writers.map((role) => role.name)).toEqual(['Agentweaver deployer', 'Agentweaver previewer'])
  })

  test('the promoting identity only reads images here, and the deployment of prod prints its id', () => {
    const granted = byType(DEV, 'Microsoft.Authorization/roleAssignments').filter(
      ({ properties }) => properties['principalId'] === DEV.promotedBy,
    )

    expect(granted.map(({ properties }) => nameOfRole(DEV, String(properties['roleDefinitionId'])))).toEqual([
      'Agentweaver image reader',
    ])
    expect(JSON.stringify(stateTemplate({ ...DEV, promotedBy: undefined }))).not.toContain('image reader')
    expect(stateTemplate(PROD).outputs).toHaveProperty('upPrincipalId')
  })

  test('prod has no preview identity', () => {
    expect(JSON.stringify(stateTemplate(PROD))).not.toMatch(/ci-preview|-previews|previewer/i)
  })

  const OWNER = '8e3af657-a8ff-443c-a75c-2fe8c4bcb635'
  const ADMINISTRATOR = rights.BOOTSTRAP_ROLES['Role Based Access Control Administrator']
  const allowed = rights.grantableRoles(DEV, false)
  const condition = rights.grantCondition(allowed, false)
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

  test('a slice may not grant an administrator role of the cluster or of the network', () => {
    const slice = rights.grantableRoles(DEV, true)

    expect(slice).toContain(BUILT_IN_ROLES['Key Vault Secrets User'])
    expect(slice).not.toContain(BUILT_IN_ROLES['Azure Kubernetes Service RBAC Cluster Admin'])
    expect(slice).not.toContain(BUILT_IN_ROLES['Network Contributor'])
  })

  test('the preview identity writes only the state of previews', () => {
    const [, glob = ''] = /StringLike '([^']+)'/.exec(rights.previewStateCondition('agentweaver')) ?? []
    const writes = (path: string) =>
      new RegExp(`^${glob.replaceAll('.', '\\.').replaceAll('*', '.*')}$`).test(path)

    expect(writes('.pulumi/stacks/agentweaver/pr-a-000000.json')).toBe(true)
    expect(writes('.pulumi/locks/organization/agentweaver/pr-a-000000/1.json')).toBe(true)
    for (const path of [
      '.pulumi/stacks/agentweaver/dev.json',
      '.pulumi/locks/organization/agentweaver/dev/1.json',
      '.pulumi/meta.yaml',
    ])
      expect(writes(path)).toBe(false)
    const holders = resourcesOf(DEV).filter(({ properties }) =>
      String(properties['condition']).includes('StringLike'),
    )
    expect(holders).toHaveLength(1)
  })
})

/** Roles of an identity, by name. */
function rolesOf(config: StateConfig, duty: string): string[] {
  return byType(config, 'Microsoft.Authorization/roleAssignments').flatMap(({ properties }) => {
    const principal = String(properties['principalId'])
    const isIts = principal.includes(`${duty}Principal`) || principal.includes(`-ci-${duty}'`)
    return isIts ? [nameOfRole(config, String(properties['roleDefinitionId']))] : []
  })
}

function nameOfRole(config: StateConfig, id: string): string {
  const guid = id.split('/').at(-1)
  const made = byType(config, 'Microsoft.Authorization/roleDefinitions').find(({ name }) => name === guid)
  const builtIn = Object.entries(rights.BOOTSTRAP_ROLES).find(([, value]) => value === guid)
  return made ? String(made.properties['roleName']).replace(/ \(.*\)$/, '') : (builtIn?.[0] ?? id)
}

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
