import { expect, test } from 'vitest'
import { attachProviders } from './cli/attached-providers.ts'
import { providerClient, temporaryCloud } from './helpers/provider-client.ts'

const GROUP = 'azure-native:resources:ResourceGroup'
const portOf = (attachment: string) => /azure-native:(\d+)/.exec(attachment)?.[1] ?? ''

async function connected(attachment: string) {
  const client = providerClient(`127.0.0.1:${portOf(attachment)}`)
  await client.configure({ subscriptionId: 'sub', location: 'westeurope' })
  return client
}

test.each([
  ['crash-before', 0],
  ['crash-after', 1],
] as const)('ends as a process on %s, and the next one finds the cloud as it was left', async (how, left) => {
  using cloud = temporaryCloud()
  await using providers = await attachProviders(cloud.folder)
  const attachment = await providers.attachment()
  using first = await connected(attachment)
  await first.create([GROUP, 'kept'], { resourceGroupName: 'kept' })
  cloud.plant({ op: 'create', type: GROUP, how })

  await expect(first.create([GROUP, 'lost'], { resourceGroupName: 'lost' })).rejects.toThrow()
  await expect.poll(() => providers.isAlive('azure-native')).toBe(false)
  const again = await providers.attachment()
  using second = await connected(again)
  const kept = await second.read([GROUP, 'kept'], { id: '/subscriptions/sub/resourceGroups/kept' })

  expect(attachment).toMatch(/^azure-native:\d+,kubernetes:\d+$/)
  expect(again).not.toBe(attachment)
  expect(kept.outputs).toMatchObject({ name: 'kept' })
  expect(cloud.list().filter(({ outputs }) => outputs['name'] === 'lost')).toHaveLength(left)
})

test('keeps one configuration for each connection, as the engine dials once for each provider', async () => {
  using cloud = temporaryCloud()
  await using providers = await attachProviders(cloud.folder)
  const attachment = await providers.attachment()
  using one = await connected(attachment)
  using two = providerClient(`127.0.0.1:${portOf(attachment)}`)
  await two.configure({ subscriptionId: 'other', location: 'northeurope' })

  const made = await one.create([GROUP, 'group'], { resourceGroupName: 'group' })

  expect(made.id).toBe('/subscriptions/sub/resourceGroups/group')
})
