import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { previewSlug } from '../../../infra/model/preview-slug.ts'
import { findPulumi } from '../../../infra/up/find-pulumi.ts'
import type { AnswerName } from '../../cli/pulumi-answers.ts'
import { until } from '../../helpers/until.ts'
import { idsInCloud } from './in-cloud.ts'
import { prove } from './proof.ts'
import { recordAnswer } from './record-answer.ts'
import { givenForSlice } from './slice-ground.ts'
import { aWorkspace, type Ran, type Workspace } from './workspace.ts'

/**
 * `agentweaver preview-stack` with the real CLI, on one platform. Each test continues from the end of the previous
 * test.
 */
const IDENTITY = 'azure-native:managedidentity:UserAssignedIdentity'
const BRANCH = 'fix/egress'
const SLUG = previewSlug(BRANCH)
const STACK = `pr-${SLUG}`
const ON = ['--stack', STACK]
const PACK = ['--policy-pack', 'policies/stack']

let space: Workspace
let cli = ''
const record = (name: AnswerName, argv: readonly string[]) => recordAnswer({ space, cli }, name, argv)
let platform: readonly string[] = []
let objects = 0
beforeAll(async () => {
  const found = await findPulumi(process.env)
  cli = 'version' in found ? found.version : ''
  space = await aWorkspace()
  await space.init('dev')
  const { status, text } = await space.up('dev')
  expect(status, text).toBe(0)
  givenForSlice(space, SLUG)
  platform = idsInCloud(space)
  objects = space.cloud.list().length
})
afterAll(() => space[Symbol.asyncDispose]())

const preview = (...argv: string[]) => space.script('cli/main.ts', 'preview-stack', ...argv)
const proven = (words: string, ran: Ran, outcome: string) =>
  prove({ part: 'Previews', command: `agentweaver preview-stack ${words}`, ran, outcome })
const up = (...more: string[]) => preview('up', '--branch', BRANCH, '--hours', '2', '--json', ...more)

test('a policy violation is reported with rule, resource and remedy before any resource is created', async () => {
  const path = join(space.project, 'policies/stack/settings.ts')
  const settings = `export const DEFAULT_SETTINGS = { regions: ['mars'], kataMaxNodes: 1 }\nexport const environmentOf = () => 'preview'\n`
  const original = readFileSync(path, 'utf8')
  writeFileSync(path, settings)

  const ran = await up()
  await record('refused', ['up', ...ON, ...PACK])

  writeFileSync(path, original)
  proven('up --branch fix/egress', ran, 'a rule is broken: told by rule, resource and remedy; nothing made')
  expect(ran.status).toBe(1)
  expect(ran.text).toContain(`pulumi up failed for ${STACK}:`)
  expect(ran.text).toMatch(
    /^ {2}policy regions: managedidentity:UserAssignedIdentity \S+-api: location is "eastus2": use a region/m,
  )
  expect(idsInCloud(space)).toEqual(platform)
  expect(space.cloud.list()).toHaveLength(objects)
})

test('an error of Azure is reported with the resource', async () => {
  space.cloud.plant({ op: 'create', type: IDENTITY, how: 'before' })
  const ran = await up()
  space.cloud.plant({ op: 'create', type: IDENTITY, how: 'before' })
  await record('failed', ['up', ...ON, ...PACK])

  expect(ran.status).toBe(1)
  expect(ran.text).toMatch(/^ {2}managedidentity:UserAssignedIdentity \S+: Status=500 .*planted/m)
})

test('up makes the slice and says until when, and a second one only moves that', async () => {
  const first = await up()
  const made = (await space.made(STACK)).length
  space.writes()
  const again = await up()

  const { stack, slug, expires, outputs } = JSON.parse(first.stdout)
  proven('up --branch fix/egress --hours 2', first, `${made} resources`)
  proven('up --branch fix/egress --hours 2', again, 'a second time: updates only the tag of its end')
  expect([first.status, again.status], `${first.text}\n${again.text}`).toEqual([0, 0])
  expect({ stack, slug }).toEqual({ stack: STACK, slug: SLUG })
  expect(Date.parse(JSON.parse(again.stdout).expires)).toBeGreaterThanOrEqual(Date.parse(expires))
  expect(outputs).toHaveProperty('infra.cluster.name', 'agentweaver-dev')
  expect(new Set(space.writes().map(({ op }) => op))).toEqual(new Set(['update']))
})

test('up passes on a machine that has never seen the stack', async () => {
  rmSync(space.stackFile(STACK))

  const ran = await up()

  expect(ran.status, ran.text).toBe(0)
})

test('the output of Pulumi that commands parse', async () => {
  const list = await record('list', ['stack', 'ls', '--json'])
  const answers = [
    await record('select', ['stack', 'select', ...ON, '--create', '--secrets-provider', 'passphrase']),
    await record('export', ['stack', 'export', ...ON]),
    await record('output', ['stack', 'output', ...ON, '--json']),
    await record('up', ['up', ...ON, ...PACK]),
  ]

  expect(answers.map(({ status, stderr }) => [status, stderr])).toEqual(answers.map(() => [0, '']))
  // A storage backend does not report an update in progress; only the lock shows it.
  expect(Object.keys(JSON.parse(list.stdout)[0]).toSorted()).toEqual([
    'current',
    'lastUpdate',
    'name',
    'resourceCount',
  ])
})

test('status finds the stack, and reports a missing one', async () => {
  const ran = await preview('status', '--branch', BRANCH, '--json')
  const none = await preview('status', '--branch', 'nothing')

  proven('status --branch fix/egress', ran, 'its resources and its end')
  proven('status --branch nothing', none, 'says that there is none')
  expect([ran.status, none.status]).toEqual([0, 3])
  expect(JSON.parse(ran.stdout)).toMatchObject({ exists: true, stack: STACK, isExpired: false })
})

test('sweep keeps active and locked stacks, and destroys expired ones', async () => {
  const kept = await preview('sweep', '--json')
  space.edit(STACK, () => ({ 'agentweaver:expires': '2026-01-01T00:00:00Z' }))
  const { status, text } = await space.up(STACK)
  space.cloud.plant({ op: 'create', type: IDENTITY, how: 'hang' })
  const other = await space.start([
    'up',
    '--yes',
    '--skip-preview',
    '--stack',
    STACK,
    '--replace',
    await identity(),
  ])
  await until('up holds the lock', () => space.isLocked() && space.cloud.faultsLeft() === 0, 120_000)

  const busy = await preview('sweep', '--json')
  await record('locked', ['up', ...ON, ...PACK])
  process.kill(-(other.child.pid ?? Number.NaN), 'SIGKILL')
  await other.done
  await space.providers.restart()
  await space.pulumi('cancel', '--yes', '--stack', STACK)
  const dry = await preview('sweep', '--dry-run', '--json')
  const swept = await preview('sweep', '--json')

  proven('sweep', kept, 'keeps what lives')
  proven('sweep', busy, 'keeps what somebody else is changing')
  proven('sweep --dry-run', dry, 'says what it would destroy')
  proven('sweep', swept, 'destroys what is over')
  expect(status, text).toBe(0)
  const judged = (ran: Ran) => JSON.parse(ran.stdout).stacks.map(({ did }: { did: string }) => did)
  expect([kept, busy, dry, swept].map(judged)).toEqual([['kept'], ['kept'], ['would destroy'], ['destroyed']])
  expect(busy.stdout).toContain('is being changed since')
  expect(idsInCloud(space)).toEqual(platform)
})

const identity = async () =>
  (await space.made(STACK)).find(({ type, urn }) => type === IDENTITY && urn.endsWith('-egress-proxy'))
    ?.urn ?? ''
test('down destroys a slice with its stack and its file, on another machine too, and leaves the platform', async () => {
  const made = await up()
  rmSync(space.stackFile(STACK))

  const ran = await preview('down', '--branch', BRANCH, '--json')
  await up()
  const destroyed = await record('destroy', ['destroy', ...ON, '--remove'])
  const again = await preview('down', '--branch', BRANCH)

  proven(
    'down --branch fix/egress',
    ran,
    'the slice, its stack and its stack file are gone; the platform is as it was',
  )
  expect([made.status, ran.status, again.status], `${made.text}\n${ran.text}`).toEqual([0, 0, 0])
  expect(JSON.parse(ran.stdout)).toEqual({ stack: STACK, destroyed: true })
  expect(destroyed.status).toBe(0)
  expect(idsInCloud(space)).toEqual(platform)
  expect(space.cloud.list()).toHaveLength(objects)
  expect(space.stackFiles()).not.toMatch(new RegExp(`^${STACK}\\.json$`, 'm'))
})
