import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { previewSlug } from '../../infra/plans/preview-slug.ts'
import { aFolder, runCli, startCli, until } from './run-cli.ts'
import { aStandIn } from './stand-in.ts'

const BASE =
  'config:\n  agentweaver:kind: platform\n  agentweaver:tags: { owner: platform, costCenter: "42" }\n'
const HOUR_MS = 3_600_000

/** A folder with the stack file of `dev`, and a `pulumi` that is the stand-in. */
async function aProject() {
  const pulumi = await aStandIn('pulumi', 'pulumi-stand-in.ts')
  const cwd = await aFolder('aw-project-')
  writeFileSync(join(cwd, 'Pulumi.dev.yaml'), BASE)
  // The key of the API is no matter of Pulumi's: the stand-in fails if it sees it.
  const env = { ...pulumi.env, AGENTWEAVER_API_KEY: 'k' }
  const preview = (...argv: string[]) => runCli(['preview-stack', ...argv], { cwd, env })
  const plant = (stack: string, state: object) => {
    mkdirSync(join(pulumi.state, 'stacks'), { recursive: true })
    writeFileSync(join(pulumi.state, 'stacks', `${stack}.json`), JSON.stringify({ resources: [], ...state }))
  }
  const stacks = (stack: string) => existsSync(join(pulumi.state, 'stacks', `${stack}.json`))
  return {
    cwd,
    pulumi,
    preview,
    plant,
    has: stacks,
    fileOf: (stack: string) => join(cwd, `Pulumi.${stack}.yaml`),
  }
}
const tagged = (expires: Date) => ({
  lastUpdate: '2020-01-01T00:00:00Z',
  resources: [{ type: 'azure-native:x:Y', inputs: { tags: { expires: expires.toISOString() } } }],
})
const PAST = new Date(Date.now() - HOUR_MS)
const FUTURE = new Date(Date.now() + HOUR_MS)

test('up, status, down: a slice of the environment with an end, and nothing of it left', async () => {
  const { preview, fileOf, has, pulumi } = await aProject()
  const stack = `pr-${previewSlug('fix/egress')}`

  const made = await preview(
    'up',
    '--branch',
    'fix/egress',
    '--hours',
    '2',
    '--secrets-provider',
    'azurekeyvault://v/keys/k',
    '--json',
  )

  expect(made.stderr).toContain('Updating')
  expect(made.status).toBe(0)
  const answer = JSON.parse(made.stdout)
  expect(answer).toMatchObject({ stack, outputs: { url: 'https://preview.example' } })
  expect(Math.abs(Date.parse(answer.expires) - Date.now() - 2 * HOUR_MS)).toBeLessThan(60_000)
  expect(parse(readFileSync(fileOf(stack), 'utf8'))).toEqual({
    secretsprovider: 'azurekeyvault://v/keys/k',
    encryptedkey: 'd3JhcHBlZA==',
    config: {
      'agentweaver:kind': 'slice',
      'agentweaver:environment': 'dev',
      'agentweaver:slug': previewSlug('fix/egress'),
      'agentweaver:branch': 'fix/egress',
      'agentweaver:expires': answer.expires,
      'agentweaver:tags': { owner: 'platform', costCenter: '42' },
    },
  })
  expect(pulumi.calls().find(([first]) => first === 'up')).toEqual(
    expect.arrayContaining(['--stack', stack, '--policy-pack', 'policies/stack']),
  )

  const status = await preview('status', '--branch', 'fix/egress', '--json')
  expect(JSON.parse(status.stdout)).toMatchObject({ exists: true, resources: 1, isExpired: false })

  const down = await preview('down', '--branch', 'fix/egress', '--json')
  expect({ status: down.status, ...JSON.parse(down.stdout) }).toEqual({ status: 0, stack, destroyed: true })
  expect([has(stack), existsSync(fileOf(stack))]).toEqual([false, false])
  expect((await preview('status', '--branch', 'fix/egress')).status).toBe(3)
  expect((await preview('down', '--branch', 'fix/egress')).status).toBe(0)
})

test('a second up changes the end alone, on a machine that has never seen the stack too', async () => {
  const { preview, fileOf, cwd } = await aProject()
  const stack = `pr-${previewSlug('a')}`
  const provider = ['--secrets-provider', 'azurekeyvault://v/keys/k']
  await preview('up', '--branch', 'a', '--hours', '1', ...provider)
  writeFileSync(fileOf(stack), '')

  const again = await preview('up', '--branch', 'a', '--hours', '9', ...provider, '--json')

  expect(again.status).toBe(0)
  const file = parse(readFileSync(join(cwd, `Pulumi.${stack}.yaml`), 'utf8'))
  expect(file.secretsprovider).toBe('azurekeyvault://v/keys/k')
  expect(Date.parse(file.config['agentweaver:expires'])).toBeGreaterThan(Date.now() + 8 * HOUR_MS)
})

const HOSTILE = [
  '--stack=prod',
  '-s',
  '$(touch owned)',
  '`touch owned`; touch owned',
  "'; touch owned #",
  '../../prod',
  'a\nconfig:\n  agentweaver:kind: platform',
  `x/${'🦄É'.repeat(99)}`,
  'prod',
]
test.each(HOSTILE)('the branch %j never reaches a shell, another stack or an option', async (branch) => {
  const { preview, pulumi, cwd } = await aProject()

  const { status, stderr } = await preview('up', `--branch=${branch}`)

  expect({ status, stderr }).toMatchObject({ status: 0 })
  expect(existsSync(join(cwd, 'owned'))).toBe(false)
  const stack = `pr-${previewSlug(branch)}`
  for (const call of pulumi.calls()) {
    expect(call[call.indexOf('--stack') + 1]).toBe(stack)
    expect(call.filter((word) => word === branch || word.includes('touch owned'))).toEqual([])
  }
  const { config } = parse(readFileSync(join(cwd, `Pulumi.${stack}.yaml`), 'utf8'))
  expect(config['agentweaver:kind']).toBe('slice')
})

test('sweep destroys what has expired, and nothing that lives, is at work or is no preview', async () => {
  const { preview, plant, has } = await aProject()
  const name = (branch: string) => `pr-${previewSlug(branch)}`
  plant(name('old'), tagged(PAST))
  plant(name('young'), tagged(FUTURE))
  plant(name('busy'), { ...tagged(PAST), updateInProgress: true })
  plant(name('halfway'), { lastUpdate: '2020-01-01T00:00:00Z' })
  plant(name('fresh'), { lastUpdate: new Date().toISOString() })
  plant(name('never'), {})
  plant('dev', tagged(PAST))
  plant('prod', tagged(PAST))
  plant('pr-notaslug', tagged(PAST))

  const dry = await preview('sweep', '--dry-run', '--json')
  const dryRun = JSON.parse(dry.stdout)
  expect(
    dryRun.stacks
      .filter(({ did }: { did: string }) => did === 'would destroy')
      .map((one: { stack: string }) => one.stack)
      .sort(),
  ).toEqual([name('halfway'), name('old')].sort())
  expect(has(name('old'))).toBe(true)

  const { status, stdout } = await preview('sweep')

  expect(status).toBe(0)
  expect(stdout).toMatch(/destroyed\s+expired/)
  const left = ['old', 'young', 'busy', 'halfway', 'fresh', 'never'].filter((branch) => has(name(branch)))
  expect(left).toEqual(['young', 'busy', 'fresh', 'never'])
  expect([has('dev'), has('prod'), has('pr-notaslug')]).toEqual([true, true, true])
})

test('one preview that cannot be destroyed keeps none of the others, and is told', async () => {
  const { preview, plant, has } = await aProject()
  const [first, second] = [`pr-${previewSlug('aa')}`, `pr-${previewSlug('bb')}`]
  plant(first, { ...tagged(PAST), failing: true })
  plant(second, tagged(PAST))

  const { status, stdout } = await preview('sweep', '--json')

  expect(status).toBe(1)
  expect(JSON.parse(stdout).stacks).toMatchObject([
    { did: 'failed', why: expect.stringContaining('said no') },
    { did: 'destroyed' },
  ])
  expect([has(first), has(second)]).toEqual([true, false])
})

test('a stack that somebody else works on is told with the command that clears its lock', async () => {
  const { preview, plant } = await aProject()
  const stack = `pr-${previewSlug('a')}`
  plant(stack, { locked: true })

  const { status, stderr } = await preview('up', '--branch', 'a')

  expect(status).toBe(1)
  expect(stderr).toContain('currently locked')
  expect(stderr).toContain(`pulumi cancel --stack ${stack}`)
})

test.each([
  [['up'], /required option '--branch/],
  [['up', '--branch', 'a', '--hours', '0'], /--hours/],
  [['up', '--branch', 'a', '--hours', '169'], /--hours/],
  [['up', '--branch', 'a', '--environment', '../x'], /--environment/],
  [['up', '--branch', 'a', '--environment', 'none'], /no file Pulumi\.none\.yaml/],
  [['up', '--branch', ''], /--branch/],
  [['up', '--branch', 'a', '--environment', 'prod'], /prod has no previews/],
])('%j is a mistake in the words, and nothing is called', async (argv, expected) => {
  const { preview, pulumi } = await aProject()

  const { status, stderr } = await preview(...argv)

  expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringMatching(expected) })
  expect(pulumi.calls()).toEqual([])
})

test('without the Pulumi CLI it says where to get it', async () => {
  const cwd = await aFolder('aw-project-')
  writeFileSync(join(cwd, 'Pulumi.dev.yaml'), BASE)

  const { status, stderr } = await runCli(['preview-stack', 'up', '--branch', 'a'], {
    cwd,
    env: { PATH: cwd },
  })

  expect(status).toBe(5)
  expect(stderr).toMatch(/pulumi is not on the PATH[\s\S]*pulumi\.com/)
})

test('an interrupt lets Pulumi end its work, and is not the end of the command before', async () => {
  const { pulumi, cwd } = await aProject()
  const mayEnd = join(cwd, 'may-end')
  const child = startCli(['preview-stack', 'up', '--branch', 'a', '--json'], {
    cwd,
    env: { ...pulumi.env, STAND_IN_UNTIL: mayEnd },
  })
  const output = text(child.stdout)
  await until('up has begun', () => pulumi.calls().some(([first]) => first === 'up'))

  child.kill('SIGINT')
  writeFileSync(mayEnd, '')

  const [status] = await once(child, 'exit')
  expect(status).toBe(0)
  expect(JSON.parse(await output)).toMatchObject({ outputs: { url: 'https://preview.example' } })
})

test.each([
  ['up', ['--branch', 'fix/egress']],
  ['sweep', []],
])('%s refuses an empty secrets provider before it changes anything', async (verb, more) => {
  const { preview, pulumi, fileOf } = await aProject()

  const { status, stderr } = await preview(verb, ...more, '--secrets-provider', '')

  expect(status).toBe(2)
  expect(stderr).toContain('The secrets provider is empty.')
  expect(pulumi.calls()).toEqual([])
  expect(existsSync(fileOf(`pr-${previewSlug('fix/egress')}`))).toBe(false)
})
