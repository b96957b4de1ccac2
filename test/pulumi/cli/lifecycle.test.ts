import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Properties } from '../../fakes/pulumi/values.ts'
import { givenForSlice } from './slice-ground.ts'
import { aWorkspace, type Exported, type Workspace } from './workspace.ts'

/** One life of a platform under the real engine. Each test goes on where the one before it ended. */
const DEV = 'dev'
const GROUP = 'azure-native:resources:ResourceGroup'
const POOL = 'azure-native:containerservice:AgentPool'
const REGISTRY = 'azure-native:containerregistry:Registry'
const CLUSTER = 'azure-native:containerservice:ManagedCluster'
const HIDDEN = /certificate-authority-data|clusterUser_/

let space: Workspace
beforeAll(async () => {
  space = await aWorkspace()
  await space.init(DEV)
})
afterAll(() => space[Symbol.asyncDispose]())

const tagged = (owner: string) => (config: Record<string, unknown>) => ({
  'agentweaver:tags': { ...(config['agentweaver:tags'] as Properties), owner },
})
const ids = (resources: readonly Exported[]) =>
  resources
    .filter(({ type }) => type.startsWith('azure-native:'))
    .map(({ id }) => id?.toLowerCase())
    .sort()
const idsInCloud = () =>
  space.cloud
    .list()
    .filter(({ type }) => type.startsWith('azure-native:'))
    .map(({ id }) => id.toLowerCase())
    .sort()
async function expectAgreement() {
  const made = await space.made(DEV)
  expect(ids(made)).toEqual(idsInCloud())
  expect(made.length).toBe(space.cloud.list().length)
}

test('a preview makes nothing', async () => {
  const { status, text } = await space.preview(DEV)

  expect(status, text).toBe(0)
  expect(space.writes()).toEqual([])
  expect(await space.made(DEV)).toEqual([])
})

test('a preview holds the rules, and fails on one that the stack breaks', async () => {
  const config = join(space.root, 'rules.json')
  writeFileSync(config, JSON.stringify({ regions: { allowed: ['mars'] } }))

  const kept = await space.preview(DEV, '--policy-pack', 'policies/stack')
  const broken = await space.preview(DEV, '--policy-pack', 'policies/stack', '--policy-pack-config', config)

  expect(kept.status, kept.text).toBe(0)
  expect(broken.status).not.toBe(0)
  expect(broken.text).toContain('regions')
})

test('a provider that crashes in mid-up leaves a state that is right', async () => {
  space.cloud.plant({ op: 'create', type: POOL, how: 'crash-before' })

  const { status } = await space.up(DEV, '--parallel', '1')

  expect(status).not.toBe(0)
  expect(space.providers.isAlive('azure-native')).toBe(false)
  await expectAgreement()
})

test('a failure before and a failure after the making leave a state that is right', async () => {
  space.cloud.plant({ op: 'create', type: POOL, how: 'partial' })
  const partial = await space.up(DEV, '--parallel', '1')
  const broken = (await space.made(DEV)).filter(({ initErrors = [] }) => initErrors.length > 0)
  space.cloud.plant({ op: 'create', type: POOL, how: 'before' })
  const failed = await space.up(DEV, '--parallel', '1')

  expect([partial.status, failed.status]).not.toContain(0)
  expect(broken.map(({ type }) => type)).toEqual([POOL])
  await expectAgreement()
})

test('the next up goes on and ends', async () => {
  const { status, text } = await space.up(DEV)

  expect(status, text).toBe(0)
  await expectAgreement()
  expect((await space.made(DEV)).length).toBeGreaterThan(50)
})

test('the second up changes nothing', async () => {
  space.writes()

  const { status, text } = await space.up(DEV, '--expect-no-changes')

  expect(status, text).toBe(0)
  expect(space.writes()).toEqual([])
})

test('secrets cannot be read in the backend, and can with the passphrase', async () => {
  const shown = JSON.stringify(await space.exported(DEV, '--show-secrets'))

  expect(shown).toMatch(HIDDEN)
  expect(space.backendText()).not.toMatch(HIDDEN)
  expect(JSON.stringify(await space.exported(DEV))).not.toMatch(HIDDEN)
})

test('an edit that Azure can take in place is an update', async () => {
  space.edit(DEV, tagged('somebody@agentweaver.example'))
  space.writes()

  const { status, text } = await space.up(DEV)

  const operations = space.writes()
  expect(status, text).toBe(0)
  expect(new Set(operations.map(({ op }) => op))).toEqual(new Set(['update']))
  expect(operations.map(({ type }) => type)).toContain(GROUP)
})

test('an edit that would replace what is protected is refused by name, in the preview and in the up', async () => {
  const before = await space.made(DEV)
  const name =
    before
      .find(({ type }) => type === CLUSTER)
      ?.urn.split('::')
      .at(-1) ?? 'no cluster'
  space.edit(DEV, ({ 'agentweaver:network': network = {} }) => ({
    'agentweaver:network': { ...(network as Properties), podCidr: '10.200.0.0/16' },
  }))
  space.writes()

  const preview = await space.preview(DEV)
  const up = await space.up(DEV)

  expect([preview.status, up.status]).not.toContain(0)
  expect(preview.text).toContain(name)
  expect(up.text).toContain(name)
  expect(up.text).toMatch(/protect/)
  expect(space.writes().filter(({ op }) => op !== 'update')).toEqual([])
  space.edit(DEV, () => ({ 'agentweaver:network': {} }))
})

test('an edit that replaces a pool deletes the old one first', async () => {
  space.edit(DEV, ({ 'agentweaver:pools': pools, 'agentweaver:quota': quota }) => ({
    'agentweaver:pools': { ...(pools as Properties), kata: { max: 5, size: 'Standard_D16ds_v5' } },
    'agentweaver:quota': { ...(quota as Properties), standardDDSv5Family: 300 },
  }))
  space.writes()

  const { status, text } = await space.up(DEV)

  const onPools = space.writes().filter(({ type, op }) => type === POOL && op !== 'update')
  expect(status, text).toBe(0)
  expect(onPools.map(({ op }) => op)).toEqual(['delete', 'create'])
  await expectAgreement()
})

test('drift is seen by a refresh and taken back by the next up', async () => {
  const registry = (await space.made(DEV)).find(({ type }) => type === REGISTRY)
  space.cloud.alter(registry?.id ?? '', 'adminUserEnabled', true)

  const refreshed = await space.refresh(DEV)
  const seen = (await space.made(DEV)).find(({ type }) => type === REGISTRY)
  const back = await space.up(DEV)

  expect([refreshed.status, back.status], `${refreshed.text}\n${back.text}`).toEqual([0, 0])
  expect(seen?.outputs?.['adminUserEnabled']).toBe(true)
  expect(space.cloud.get(registry?.id ?? '')?.outputs['adminUserEnabled']).toBe(false)
})

test('what somebody deleted is made again', async () => {
  const group = (await space.made(DEV)).find(({ type }) => type === 'azure-native:monitor:ActionGroup')
  space.cloud.remove(group?.id ?? '')

  const refreshed = await space.refresh(DEV)
  const back = await space.up(DEV)

  expect([refreshed.status, back.status], back.text).toEqual([0, 0])
  await expectAgreement()
})

async function until(isSo: () => boolean): Promise<void> {
  const deadline = Date.now() + 120_000
  while (!isSo()) {
    if (Date.now() > deadline) throw new Error('waited two minutes')
    await delay(100)
  }
}

test('a second up is told of the lock and of the command that clears it, which does', async () => {
  space.edit(DEV, tagged('nobody@agentweaver.example'))
  space.cloud.plant({ op: 'update', type: GROUP, how: 'hang' })
  const first = await space.start(['up', '--yes', '--skip-preview', '--stack', DEV])
  await until(() => space.isLocked() && space.cloud.faultsLeft() === 0)

  const second = await space.up(DEV)
  process.kill(-(first.child.pid ?? Number.NaN), 'SIGKILL')
  await first.done
  await space.providers.restart()
  const third = await space.up(DEV)
  const cancelled = await space.pulumi('cancel', '--yes', '--stack', DEV)
  const last = await space.up(DEV)

  expect([second.status, third.status]).not.toContain(0)
  expect(second.text).toMatch(/locked[\s\S]*pulumi cancel/)
  expect(third.text).toMatch(/locked[\s\S]*pulumi cancel/)
  expect([cancelled.status, last.status], `${cancelled.text}\n${last.text}`).toEqual([0, 0])
  await expectAgreement()
})

test('a slice on the platform comes and goes, and leaves the platform as it was', async () => {
  const given = givenForSlice(space)
  const platform = idsInCloud()
  const objects = space.cloud.list().length
  await space.init('pr-example')

  const up = await space.up('pr-example')
  const made = (await space.made('pr-example')).length
  space.writes()
  const again = await space.up('pr-example', '--expect-no-changes')
  const written = space.writes()
  const down = await space.destroy('pr-example')

  expect([up.status, again.status, down.status], `${up.text}\n${again.text}\n${down.text}`).toEqual([0, 0, 0])
  expect(made).toBeGreaterThan(3)
  expect(written).toEqual([])
  expect(idsInCloud()).toEqual(platform)
  expect(space.cloud.list().length).toBe(objects)
  for (const id of given) space.cloud.remove(id)
})

test('the destroy of what is protected is refused by name and deletes nothing', async () => {
  const before = idsInCloud()
  const guarded = (await space.made(DEV)).filter(({ protect }) => protect === true)

  const { status, text } = await space.destroy(DEV)

  expect(status).not.toBe(0)
  expect(guarded.some(({ urn }) => text.includes(urn.split('::').at(-1) ?? urn))).toBe(true)
  expect(idsInCloud()).toEqual(before)
})

test('a destroy without protection leaves nothing in the cloud, in the state and in the backend', async () => {
  space.edit(DEV, () => ({ 'agentweaver:protect': false }))
  const up = await space.up(DEV)
  const down = await space.destroy(DEV)
  const left = await space.exported(DEV)
  const removed = await space.pulumi('stack', 'rm', DEV, '--yes')

  expect([up.status, down.status, removed.status], `${up.text}\n${down.text}\n${removed.text}`).toEqual([
    0, 0, 0,
  ])
  expect(left).toEqual([])
  expect(space.cloud.list()).toEqual([])
  expect(space.stackFiles()).not.toMatch(new RegExp(`^${DEV}\\.json$`, 'm'))
})
