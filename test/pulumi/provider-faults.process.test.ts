import messages from '@pulumi/pulumi/proto/provider_pb.js'
import statuses from '@pulumi/pulumi/proto/status_pb.js'
import { expect, test } from 'vitest'
import { detailsOf, fromStruct, STATUS } from '../fakes/pulumi/wire.ts'
import { until } from '../helpers/until.ts'
import { azure, GROUP, SUBSCRIPTION } from './helpers/azure.ts'

test.each([
  ['before', 0],
  ['after', 1],
] as const)('fails the second group %s it was made, once', async (how, made) => {
  await using running = await azure()
  running.cloud.plant({ op: 'create', type: GROUP, how, nth: 2 })
  const create = (name: string) => running.provider.create([GROUP, name], { resourceGroupName: name })

  await create('first')
  await expect(create('second')).rejects.toThrow(/planted/)
  await create('third')

  const names = running.cloud.list().map(({ outputs }) => outputs['name'])
  expect(names.includes('second')).toBe(made === 1)
  expect(running.cloud.log().map(({ outcome }) => outcome)).toEqual(['ok', 'failed', 'ok'])
})

test('reports an object that was created with wrong properties, with its id and properties', async () => {
  await using running = await azure()
  running.cloud.plant({ op: 'create', type: GROUP, how: 'partial' })

  const error = await running.provider
    .create([GROUP, 'one'], { resourceGroupName: 'rg-test' })
    .catch((e: unknown) => e)

  const status = statuses.Status.deserializeBinary(detailsOf(error) ?? new Uint8Array())
  const detail = status
    .getDetailsList()[0]
    ?.unpack(messages.ErrorResourceInitFailed.deserializeBinary, 'pulumirpc.ErrorResourceInitFailed')
  expect(detail?.getId()).toBe(`/subscriptions/${SUBSCRIPTION}/resourceGroups/rg-test`)
  expect(fromStruct(detail?.getProperties())).toMatchObject({ name: 'rg-test' })
  expect(running.cloud.list()).toHaveLength(1)
})

test('hangs until the engine cancels', async () => {
  await using running = await azure()
  await running.provider.cancel()
  running.cloud.plant({ op: 'create', type: GROUP, how: 'hang' })
  const creating = running.provider.create([GROUP, 'one'], { resourceGroupName: 'rg-test' })
  let isSettled = false
  const settle = () => {
    isSettled = true
  }
  creating.then(settle, settle)
  await until('it hangs', () => running.cloud.faultsLeft() === 0)
  const before = isSettled

  await running.provider.cancel()

  expect(before).toBe(false)
  await expect(creating).rejects.toMatchObject({ code: STATUS.cancelled })
})
