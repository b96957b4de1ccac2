import { expect, test } from 'vitest'
import { type Properties, valueAt } from '../fakes/pulumi/values.ts'
import {
  ASSIGNMENT,
  aCluster,
  aGroup,
  aNetwork,
  azure,
  CLUSTER,
  CREDENTIAL,
  clusterInputs,
  GROUP,
  IDENTITY,
  make,
  NETWORK,
  NETWORK_CONTRIBUTOR,
  POOL,
  SUBNET,
  SUBSCRIPTION,
  VAULT,
} from './helpers/azure.ts'

test('refuses what Azure cannot change in place', async () => {
  await using running = await azure()
  await aCluster(running.provider)
  const pool = await make(running.provider, POOL, {
    resourceGroupName: 'rg-test',
    resourceName: 'aks',
    agentPoolName: 'kata',
    osSKU: 'AzureLinux',
    count: 1,
  })
  const edit = (news: Properties) =>
    running.provider.update([POOL, 'one'], {
      id: pool.id,
      old: pool.inputs,
      news: { ...pool.inputs, ...news },
    })

  const scaled = await edit({ count: 2 })
  const refused = edit({ count: 2, osSKU: 'Ubuntu' })

  expect(scaled).toMatchObject({ count: 2 })
  await expect(refused).rejects.toThrow(/PropertyChangeNotAllowed.*osSKU/)
})

test('rejects an object whose parent does not exist', async () => {
  await using running = await azure()

  const early = running.provider.create([NETWORK, 'one'], {
    resourceGroupName: 'rg-test',
    virtualNetworkName: 'net',
  })
  await expect(early).rejects.toThrow(/ResourceGroupNotFound/)
  await aGroup(running.provider)
  const orphan = running.provider.create([SUBNET, 'one'], {
    resourceGroupName: 'rg-test',
    virtualNetworkName: 'net',
    subnetName: 's',
  })
  await expect(orphan).rejects.toThrow(/ParentResourceNotFound/)
  await make(running.provider, NETWORK, { resourceGroupName: 'rg-test', virtualNetworkName: 'net' })
  const dangling = running.provider.create([SUBNET, 'one'], {
    resourceGroupName: 'rg-test',
    virtualNetworkName: 'net',
    subnetName: 's',
    natGateway: {
      id: `/subscriptions/${SUBSCRIPTION}/resourceGroups/rg-test/providers/Microsoft.Network/natGateways/none`,
    },
  })
  await expect(dangling).rejects.toThrow(/LinkedInvalidPropertyId/)
  expect(
    running.cloud
      .list()
      .map(({ type }) => type)
      .sort(),
  ).toEqual([NETWORK, GROUP])
})

test('takes a cluster only when its identity may join the subnet', async () => {
  await using running = await azure()
  const subnet = await aNetwork(running.provider)
  const identity = await make(running.provider, IDENTITY, {
    resourceGroupName: 'rg-test',
    resourceName: 'plane',
  })

  const early = running.provider.create([CLUSTER, 'one'], clusterInputs(subnet.id, identity.id))

  await expect(early).rejects.toThrow(/LinkedAuthorizationFailed/)
})

test('takes role assignments with a GUID, a kind of principal and no twin', async () => {
  await using running = await azure()
  const { id: scope } = await aGroup(running.provider)
  const assignment = {
    scope,
    principalId: 'p',
    principalType: 'ServicePrincipal',
    roleDefinitionId: NETWORK_CONTRIBUTOR,
  }
  const assign = (extra: Properties) =>
    running.provider.create([ASSIGNMENT, 'one'], { ...assignment, ...extra })
  const { principalType: _, ...bare } = assignment

  await assign({ roleAssignmentName: '0e6cf6b1-1111-5222-8333-444455556666' })

  await expect(assign({ roleAssignmentName: 'reader' })).rejects.toThrow(/InvalidRoleAssignmentId/)
  await expect(assign({ roleAssignmentName: '1e6cf6b1-1111-5222-8333-444455556666' })).rejects.toThrow(
    /RoleAssignmentExists/,
  )
  const unsaid = running.provider.create([ASSIGNMENT, 'one'], {
    ...bare,
    roleAssignmentName: '2e6cf6b1-1111-5222-8333-444455556666',
  })
  await expect(unsaid).rejects.toThrow(/PrincipalNotFound/)
})

test('takes credentials of one identity one after the other', async () => {
  await using running = await azure()
  await aGroup(running.provider)
  await make(running.provider, IDENTITY, { resourceGroupName: 'rg-test', resourceName: 'api' })
  const add = (name: string) =>
    running.provider.create([CREDENTIAL, name], {
      resourceGroupName: 'rg-test',
      resourceName: 'api',
      federatedIdentityCredentialResourceName: name,
      issuer: 'https://issuer/',
      subject: `system:serviceaccount:a:${name}`,
    })

  const [, second] = await Promise.allSettled([add('one'), add('two')])
  const later = await add('two')

  expect(second).toMatchObject({
    status: 'rejected',
    reason: { message: expect.stringMatching(/Concurrent/) },
  })
  expect(later.id).toMatch(/two$/)
})

test('rejects a second resource with the same name, and the name of a purge-protected vault', async () => {
  await using running = await azure()
  await aGroup(running.provider)
  const inputs = {
    resourceGroupName: 'rg-test',
    vaultName: 'kv',
    properties: { enablePurgeProtection: true },
  }
  const vault = await make(running.provider, VAULT, inputs)

  await expect(running.provider.create([VAULT, 'one'], inputs)).rejects.toThrow(/already existing/)
  await running.provider.delete([VAULT, 'one'], { ...vault, inputs })

  await expect(running.provider.create([VAULT, 'one'], inputs)).rejects.toThrow(/deleted state/)
  expect(valueAt(vault.outputs, 'properties.vaultUri')).toBe('https://kv.vault.azure.net/')
})
