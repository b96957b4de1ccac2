import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectAgreement, idsInCloud, nameOf, POOL } from './in-cloud.ts'
import { prove } from './proof.ts'
import { aWorkspace, type Ran, type Workspace } from './workspace.ts'

/**
 * The effect of each flag of `pulumi destroy` on a protected platform. Each test continues from the end of the previous
 * test.
 */
const DEV = 'dev'
const PAGER = 'azure-native:monitor:ActionGroup'
let space: Workspace
beforeAll(async () => {
  space = await aWorkspace()
  await space.init(DEV)
  const { status, text } = await space.up(DEV)
  expect(status, text).toBe(0)
})
afterAll(() => space[Symbol.asyncDispose]())

const destroyed = (flags: string, ran: Ran, outcome: string) =>
  prove({ part: 'Destroy', command: `pulumi destroy --stack dev${flags}`, ran, outcome })
const guarded = async () => (await space.made(DEV)).filter(({ protect }) => protect === true)

test('a destroy with its preview is refused by name and deletes nothing', async () => {
  const before = idsInCloud(space)
  const state = await space.exported(DEV)

  const ran = await space.destroy(DEV)
  const removal = await space.destroy(DEV, '--remove')

  destroyed('', ran, 'refused by name; nothing deleted, in Azure or in the state')
  destroyed(' --remove', removal, 'refused; the stack stays')
  expect([ran.status, removal.status]).not.toContain(0)
  expect((await guarded()).some(({ urn }) => ran.text.includes(nameOf(urn)))).toBe(true)
  expect(idsInCloud(space)).toEqual(before)
  expect(await space.exported(DEV)).toEqual(state)
})

test('a destroy of one target deletes it with what depends on it, and refuses where something protected does', async () => {
  const made = await space.made(DEV)
  const urnOf = (type: string) => made.find((one) => one.type === type)?.urn ?? ''

  const pool = await space.destroy(DEV, '--target', urnOf(POOL), '--target-dependents')
  const before = idsInCloud(space)
  const pager = await space.destroy(DEV, '--target', urnOf(PAGER), '--target-dependents')
  const gone = before.filter((id) => !idsInCloud(space).includes(id))
  await expectAgreement(space, DEV)
  const back = await space.up(DEV)

  destroyed(
    ' --target <urn of a pool> --target-dependents',
    pool,
    'refused: protected objects of the cluster depend on it',
  )
  destroyed(
    ' --target <urn of the pager> --target-dependents',
    pager,
    `${gone.length} resources are deleted, it and what depends on it; the next up makes them again`,
  )
  expect(pool.status).not.toBe(0)
  expect(pool.text).toMatch(/protected/)
  expect([pager.status, back.status], `${pager.text}\n${back.text}`).toEqual([0, 0])
  expect(gone.map((id) => id.split('/').at(-1)).toSorted()).toEqual([
    'agentweaver-dev-alerts',
    'agentweaver-dev-pager',
  ])
  await expectAgreement(space, DEV)
})

test('a destroy without its preview deletes all that is not protected, and the state says so', async () => {
  const before = idsInCloud(space).length
  const kept = (await guarded()).map(({ urn }) => urn)

  const ran = await space.destroy(DEV, '--skip-preview')

  const left = await space.made(DEV)
  destroyed(
    ' --skip-preview',
    ran,
    `fails, but ${before - idsInCloud(space).length} resources of Azure are deleted before; the state says what is left`,
  )
  expect(ran.status).not.toBe(0)
  expect(kept.every((urn) => left.some((one) => one.urn === urn))).toBe(true)
  // The state still contains every existing object, so the next update does not fail on a second create.
  const owned = new Set(left.map(({ id }) => id?.toLowerCase()))
  expect(idsInCloud(space).filter((id) => !owned.has(id))).toEqual([])
})

test('the next up makes again what that destroy deleted', async () => {
  const ran = await space.up(DEV)

  prove({ part: 'Destroy', command: 'pulumi up --stack dev', ran })
  expect(ran.status, ran.text).toBe(0)
  const owned = new Set((await space.made(DEV)).map(({ id }) => id?.toLowerCase()))
  expect(idsInCloud(space).filter((id) => !owned.has(id))).toEqual([])
})

test('--exclude-protected deletes what nothing protected needs, and succeeds', async () => {
  const kept = (await guarded()).map(({ urn }) => urn)
  const before = idsInCloud(space).length

  const ran = await space.destroy(DEV, '--exclude-protected')

  const left = await space.made(DEV)
  destroyed(
    ' --exclude-protected',
    ran,
    `succeeds; ${before - idsInCloud(space).length} resources of Azure are deleted, what is protected stays with all that it needs`,
  )
  expect(ran.status, ran.text).toBe(0)
  expect(kept.every((urn) => left.some((one) => one.urn === urn))).toBe(true)
  const back = await space.up(DEV)
  expect(back.status, back.text).toBe(0)
})

test('a destroy without protection leaves nothing in the cloud, in the state and in the backend', async () => {
  space.edit(DEV, () => ({ 'agentweaver:protect': false }))

  const up = await space.up(DEV)
  const together = (await space.exported(DEV)).filter(({ deletedWith }) => deletedWith)
  const down = await space.destroy(DEV)
  const left = await space.exported(DEV)
  const removed = await space.pulumi('stack', 'rm', DEV, '--yes')

  prove({ part: 'Destroy', command: 'pulumi up --stack dev', ran: up, outcome: 'with protect: false' })
  destroyed('', down, 'everything deleted; the types of the controller go with the cluster')
  expect([up.status, down.status, removed.status], `${up.text}\n${down.text}\n${removed.text}`).toEqual([
    0, 0, 0,
  ])
  expect(together.length).toBeGreaterThan(3)
  expect(left).toEqual([])
  expect(space.cloud.list()).toEqual([])
  expect(space.stackFiles()).not.toMatch(new RegExp(`^${DEV}\\.json$`, 'm'))
})
