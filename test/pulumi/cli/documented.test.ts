import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parse } from 'yaml'
import { isUnknown, type Plan, type PlannedValue } from '../../../contracts/planned-resource.ts'
import { RELEASE_FOLDER } from '../../../infra/release/read-release.ts'
import { type Properties, plain, valueAt } from '../../fakes/pulumi/values.ts'
import { byYaml11 } from '../../infra/other-yaml-readers.ts'
import { ROOT, releaseFolder } from '../helpers/stack-file.ts'
import { CLUSTER, expectAgreement, GROUP, nameOf, POOL } from './in-cloud.ts'
import { prove, summaryOf } from './proof.ts'
import { aWorkspace, type Exported, type Ran, type Workspace } from './workspace.ts'

/**
 * The commands of docs/infra.md, in their order, on one platform. Each test continues from the end of the previous
 * test.
 */
const DEV = 'dev'
const PACK = ['--policy-pack', 'policies/stack'] as const
const REGISTRY = 'azure-native:containerregistry:Registry'
const HIDDEN = /certificate-authority-data|clusterUser_/

let space: Workspace
beforeAll(async () => {
  space = await aWorkspace()
})
afterAll(() => space[Symbol.asyncDispose]())

const tagged = (owner: string) => (config: Record<string, unknown>) => ({
  'agentweaver:tags': { ...(config['agentweaver:tags'] as Properties), owner },
})
const inPart = (part: string) => (command: string, ran: Ran, outcome?: string) =>
  prove({ part, command, ran, ...(outcome !== undefined && { outcome }) })
const before = inPart('Before the stack')
const fresh = inPart('A new stack')
const there = inPart('A stack that is there')
const guarded = inPart('What is protected')

test('the controller is fetched, and a program without it says how', async () => {
  const release = releaseFolder()
  if (release === undefined) return
  const folder = join(space.project, RELEASE_FOLDER)
  renameSync(folder, join(space.root, 'release'))
  await space.init('prod')

  const without = await space.preview('prod')
  const fetched = await space.script('infra/release/main.ts', 'fetch', '--from', join(space.root, 'release'))

  before(
    'pulumi preview --stack prod',
    without,
    'without the files of the controller: names the command that fetches them',
  )
  before('npm run controller -- fetch --from <folder>', fetched, 'checksums verified')
  expect(without.status).not.toBe(0)
  expect(without.text).toContain('npm run controller -- fetch')
  expect(without.text).not.toMatch(/^\s+at .*\(/m)
  expect(fetched.status, fetched.text).toBe(0)
  expect(existsSync(join(folder, 'controller.yaml'))).toBe(true)
})

test('stack init keeps every value of the stack file', async () => {
  const values = () => {
    const text = readFileSync(space.stackFile(DEV), 'utf8')
    expect(byYaml11(text)).toEqual(parse(text))
    return (parse(text) as { config: unknown }).config
  }
  const asCommitted = values()

  const ran = await space.init(DEV)

  before('pulumi stack init dev --secrets-provider passphrase', ran, 'the stack file says what it said')
  if (releaseFolder() !== undefined) expect(values()).toEqual(asCommitted)
})

test('a preview with the policy pack passes and makes nothing', async () => {
  const ran = await space.preview(DEV, ...PACK)

  fresh('pulumi preview --stack dev --policy-pack policies/stack', ran)
  expect(ran.status, ran.text).toBe(0)
  expect(space.writes()).toEqual([])
  expect(await space.made(DEV)).toEqual([])
})

test('a preview fails on a rule that the stack breaks, and makes nothing', async () => {
  const config = join(space.root, 'rules.json')
  writeFileSync(config, JSON.stringify({ regions: { allowed: ['mars'] } }))

  const ran = await space.preview(DEV, ...PACK, '--policy-pack-config', config)

  fresh(
    'pulumi preview --stack dev --policy-pack policies/stack',
    ran,
    'a rule is broken: refused by its name',
  )
  expect(ran.status).not.toBe(0)
  expect(ran.text).toMatch(/\[mandatory\] {2}regions/)
  expect(space.writes()).toEqual([])
})

test('up with the policy pack makes everything, as many as the page of the plan says', async () => {
  const page = await space.script('tools/offline-plan/main.ts', '--stack', DEV)
  const ran = await space.pulumi('up', '--yes', '--stack', DEV, ...PACK)
  const [, counted] = /Pulumi counts (\d+) on a new stack/.exec(page.text) ?? []

  before('npm run plan -- --stack dev', page, `${counted} to be made on a new stack`)
  if (releaseFolder() !== undefined) expect(summaryOf(ran.text)).toBe(`${counted} created`)

  fresh('pulumi up --stack dev --policy-pack policies/stack', ran)
  expect(ran.status, ran.text).toBe(0)
  await expectAgreement(space, DEV)
  expect((await space.made(DEV)).length).toBeGreaterThan(50)
})

/** Leaves of a planned value with their paths. */
function leaves(value: PlannedValue, path: string): (readonly [string, PlannedValue])[] {
  const isLeaf = typeof value !== 'object' || value === null || '$unknown' in value || '$secret' in value
  if (isLeaf) return [[path, value]]
  const quoted = (key: string) => (Array.isArray(value) ? `[${key}]` : `[${JSON.stringify(key)}]`)
  return Object.entries(value).flatMap(([key, item]) => leaves(item as PlannedValue, `${path}${quoted(key)}`))
}

test.runIf(releaseFolder() !== undefined)(
  'the committed plan and the run agree to the last value',
  async () => {
    const plan = JSON.parse(readFileSync(join(ROOT, 'plans/dev.json'), 'utf8')) as Plan
    const planned = plan.resources.filter(({ type }) => type.startsWith('azure-native:'))
    const made = new Map((await space.made(DEV)).map((one) => [one.urn, one]))
    const real = (urn: string, path: string) =>
      valueAt(plain((made.get(urn)?.inputs ?? {}) as Properties), path)

    const all = planned.flatMap(({ urn, inputs }) =>
      leaves(inputs, '').map(([path, value]) => ({ urn, path, value })),
    )
    const isKnown = ({ value }: { value: PlannedValue }) => typeof value !== 'object'

    expect(planned.map(({ urn }) => urn).toSorted()).toEqual(
      [...made.keys()].filter((urn) => made.get(urn)?.type.startsWith('azure-native:')).toSorted(),
    )
    expect(all.filter(isKnown).filter(({ urn, path, value }) => real(urn, path) !== value)).toEqual([])
    const open = all.filter(({ value }) => isUnknown(value))
    expect(
      open.filter(({ urn, path }) => [undefined, null, ''].includes(real(urn, path) as undefined)),
    ).toEqual([])
    expect(open.length).toBeGreaterThan(50)
  },
)

test('the second up changes nothing', async () => {
  space.writes()

  const ran = await space.pulumi('up', '--yes', '--stack', DEV, ...PACK, '--expect-no-changes')

  there('pulumi up --stack dev --policy-pack policies/stack', ran)
  expect(ran.status, ran.text).toBe(0)
  expect(space.writes()).toEqual([])
})

test('secrets cannot be read in the backend, and can with the passphrase', async () => {
  const shown = JSON.stringify(await space.exported(DEV, '--show-secrets'))

  expect(shown).toMatch(HIDDEN)
  expect(space.backendText()).not.toMatch(HIDDEN)
  expect(JSON.stringify(await space.exported(DEV))).not.toMatch(HIDDEN)
})

test('the outputs go into the environment file, and from there into the tree', async () => {
  const written = await space.script('infra/outputs/main.ts', '--stack', DEV)
  const again = await space.script('infra/outputs/main.ts', '--stack', DEV, '--check')
  const tree = await space.script('charts-src/main.ts', DEV)

  there('npm run environment -- --stack dev', written, 'environments/dev.json written')
  there('npm run synth -- dev', tree, 'gitops/dev rendered')
  expect([written.status, again.status, tree.status], `${written.text}${again.text}${tree.text}`).toEqual([
    0, 0, 0,
  ])
})

test('an edit that Azure can take in place is an update, for one target too', async () => {
  space.edit(DEV, tagged('somebody@agentweaver.example'))
  space.writes()
  const registry = (await space.made(DEV)).find(({ type }) => type === REGISTRY)?.urn ?? ''

  const target = await space.pulumi('up', '--yes', '--stack', DEV, ...PACK, '--target', registry)
  const first = space.writes()
  const ran = await space.pulumi('up', '--yes', '--stack', DEV, ...PACK)
  const rest = space.writes()

  there('pulumi up --stack dev --policy-pack policies/stack --target <urn of the registry>', target)
  there('pulumi up --stack dev --policy-pack policies/stack', ran)
  expect([target.status, ran.status], `${target.text}\n${ran.text}`).toEqual([0, 0])
  expect(first.map(({ op, type }) => [op, type])).toEqual([['update', REGISTRY]])
  expect(new Set(rest.map(({ op }) => op))).toEqual(new Set(['update']))
  expect(rest.map(({ type }) => type)).toContain(GROUP)
})

test('preview and up reject an edit that would replace a protected resource, by name', async () => {
  const name = nameOf((await space.made(DEV)).find(({ type }) => type === CLUSTER)?.urn)
  space.edit(DEV, ({ 'agentweaver:network': network = {} }) => ({
    'agentweaver:network': { ...(network as Properties), podCidr: '10.200.0.0/16' },
  }))
  space.writes()

  const preview = await space.preview(DEV, ...PACK)
  const up = await space.pulumi('up', '--yes', '--stack', DEV, ...PACK)

  guarded('pulumi preview --stack dev', preview, `podCidr was edited: refuses to replace ${name}`)
  guarded('pulumi up --stack dev', up, 'podCidr was edited: refused, nothing written')
  expect([preview.status, up.status]).not.toContain(0)
  expect(preview.text).toContain(name)
  expect(up.text).toMatch(/protect/)
  expect(space.writes()).toEqual([])
  space.edit(DEV, () => ({ 'agentweaver:network': {} }))
})

test('an edit that replaces a pool deletes the old one first', async () => {
  space.edit(DEV, ({ 'agentweaver:pools': pools, 'agentweaver:quota': quota }) => ({
    'agentweaver:pools': { ...(pools as Properties), kata: { max: 5, size: 'Standard_D16ds_v5' } },
    'agentweaver:quota': { ...(quota as Properties), standardDDSv5Family: 300 },
  }))
  space.writes()

  const ran = await space.pulumi('up', '--yes', '--stack', DEV, ...PACK)

  const onPools = space.writes().filter(({ type, op }) => type === POOL && op !== 'update')
  there(
    'pulumi up --stack dev --policy-pack policies/stack',
    ran,
    `another size of the Kata pool: ${onPools.map(({ op }) => op).join(', then ')}`,
  )
  expect(ran.status, ran.text).toBe(0)
  expect(onPools.map(({ op }) => op)).toEqual(['delete', 'create'])
  await expectAgreement(space, DEV)
})

const registryOf = (made: readonly Exported[]) => made.find(({ type }) => type === REGISTRY)

test('drift fails the nightly job, is seen by a refresh and taken back by the next up', async () => {
  const digest = join(space.root, 'refresh.json')
  const judged = async () => {
    const ran = await space.pulumi('refresh', '--stack', DEV, '--preview-only', '--json')
    writeFileSync(digest, ran.stdout)
    return { ran, page: await space.script('tools/drift/main.ts', digest) }
  }
  const clean = await judged()
  const id = registryOf(await space.made(DEV))?.id ?? ''
  space.cloud.alter(id, 'adminUserEnabled', true)

  const drifted = await judged()
  const refreshed = await space.refresh(DEV)
  const seen = registryOf(await space.made(DEV))
  const back = await space.up(DEV, ...PACK)

  there('pulumi refresh --stack dev --preview-only --json', clean.ran, 'no drift')
  there(
    'pulumi refresh --stack dev --preview-only --json',
    drifted.ran,
    'a changed registry: the drift check fails',
  )
  there('pulumi refresh --stack dev', refreshed)
  expect([clean.page.status, drifted.page.status], `${clean.page.text}${drifted.page.text}`).toEqual([0, 1])
  expect(drifted.page.text).toContain('adminUserEnabled')
  expect([refreshed.status, back.status], `${refreshed.text}\n${back.text}`).toEqual([0, 0])
  expect(seen?.outputs?.['adminUserEnabled']).toBe(true)
  expect(space.cloud.get(id)?.outputs['adminUserEnabled']).toBe(false)
})

test('up creates a deleted resource again', async () => {
  const group = (await space.made(DEV)).find(({ type }) => type === 'azure-native:monitor:ActionGroup')
  space.cloud.remove(group?.id ?? '')

  const refreshed = await space.refresh(DEV)
  const back = await space.up(DEV, ...PACK)

  expect([refreshed.status, back.status], back.text).toEqual([0, 0])
  await expectAgreement(space, DEV)
})
