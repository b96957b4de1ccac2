import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Properties } from '../../fakes/pulumi/values.ts'
import { until } from '../../helpers/until.ts'
import { expectAgreement, GROUP, POOL } from './in-cloud.ts'
import { prove } from './proof.ts'
import { aWorkspace, type Ran, type Workspace } from './workspace.ts'

/** Failures during an update, and the documented recovery. Each test continues from the end of the previous test. */
const DEV = 'dev'
const PAGER = 'azure-native:monitor:ActionGroup'

let space: Workspace
beforeAll(async () => {
  space = await aWorkspace()
  await space.init(DEV)
})
afterAll(() => space[Symbol.asyncDispose]())

const after = (command: string, ran: Ran, outcome: string) =>
  prove({ part: 'After a failure', command, ran, outcome })

test('the documented command imports a resource that was created while the response was lost', async () => {
  space.cloud.plant({ op: 'create', type: PAGER, how: 'after' })
  const lost = await space.up(DEV, '--parallel', '1')
  const failed = await space.up(DEV, '--parallel', '1')
  const state = await space.exported(DEV)
  const urnOf = (end: string) => state.find(({ urn }) => urn.endsWith(end))?.urn ?? ''
  const pager = space.cloud.list().find(({ type }) => type === PAGER)

  const imported = await space.pulumi(
    ...[
      'import',
      PAGER,
      'agentweaver-dev-pager',
      pager?.id ?? '',
      '--stack',
      DEV,
      '--yes',
      '--generate-code=false',
    ],
    ...['--parent', `parent=${urnOf('::agentweaver:infra:Observability::agentweaver-dev')}`],
    ...['--provider', `azure=${urnOf('::pulumi:providers:azure-native::azure')}`, '--protect=false'],
  )

  after(
    'pulumi import <type> <name> <id> --parent … --provider … --protect=false --generate-code=false',
    imported,
    'takes what exists and the state does not know; the next up neither makes nor replaces it',
  )
  expect([lost.status, failed.status]).not.toContain(0)
  expect(failed.text).toContain(`cannot create already existing resource '${pager?.id}'`)
  expect(imported.status, imported.text).toBe(0)
  expect((await space.made(DEV)).filter(({ type }) => type === PAGER)).toHaveLength(1)
})

test('a provider that crashes in mid-up leaves a state that is right', async () => {
  space.cloud.plant({ op: 'create', type: POOL, how: 'crash-before' })

  const { status } = await space.up(DEV, '--parallel', '1')

  expect(status).not.toBe(0)
  expect(space.providers.isAlive('azure-native')).toBe(false)
  await expectAgreement(space, DEV)
})

test('a failure before and a failure after the making leave a state that is right', async () => {
  space.cloud.plant({ op: 'create', type: POOL, how: 'partial' })
  const partial = await space.up(DEV, '--parallel', '1')
  const broken = (await space.made(DEV)).filter(({ initErrors = [] }) => initErrors.length > 0)
  space.cloud.plant({ op: 'create', type: POOL, how: 'before' })
  const failed = await space.up(DEV, '--parallel', '1')

  expect([partial.status, failed.status]).not.toContain(0)
  expect(broken.map(({ type }) => type)).toEqual([POOL])
  await expectAgreement(space, DEV)
})

test('the next up goes on and ends', async () => {
  const ran = await space.up(DEV)

  after('pulumi up --stack dev', ran, 'goes on where a crash and two failures have stopped it')
  expect(ran.status, ran.text).toBe(0)
  await expectAgreement(space, DEV)
  expect((await space.made(DEV)).length).toBeGreaterThan(50)
  const onPager = space.cloud.log().filter(({ op, type }) => type === PAGER && op !== 'read')
  expect(onPager.map(({ op, outcome }) => `${op} ${outcome}`)).toEqual(['create failed', 'create failed'])
})

test('a second up reports the lock and the command that removes it', async () => {
  space.edit(DEV, (config) => ({
    'agentweaver:tags': {
      ...(config['agentweaver:tags'] as Properties),
      owner: 'nobody@agentweaver.example',
    },
  }))
  space.cloud.plant({ op: 'update', type: GROUP, how: 'hang' })
  const first = await space.start(['up', '--yes', '--skip-preview', '--stack', DEV])
  await until('up holds the lock', () => space.isLocked() && space.cloud.faultsLeft() === 0, 120_000)

  const second = await space.up(DEV)
  const preview = await space.preview(DEV)
  process.kill(-(first.child.pid ?? Number.NaN), 'SIGKILL')
  await first.done
  await space.providers.restart()
  const third = await space.up(DEV)
  const cancelled = await space.pulumi('cancel', '--yes', '--stack', DEV)
  const last = await space.up(DEV)

  after('pulumi up --stack dev', second, 'while another runs: refused, names the lock and `pulumi cancel`')
  after('pulumi preview --stack dev', preview, 'while an up runs: passes, for it takes no lock')
  after('pulumi cancel --stack dev', cancelled, 'clears the lock of a run that was killed')
  after('pulumi up --stack dev', last, 'ends what the killed run began')
  expect([second.status, third.status]).not.toContain(0)
  expect(second.text).toMatch(/locked[\s\S]*pulumi cancel/)
  expect(third.text).toMatch(/locked[\s\S]*pulumi cancel/)
  expect(preview.status, preview.text).toBe(0)
  expect([cancelled.status, last.status], `${cancelled.text}\n${last.text}`).toEqual([0, 0])
  await expectAgreement(space, DEV)
})
