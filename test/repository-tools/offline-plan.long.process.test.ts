import { execFile } from 'node:child_process'
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Plan, PlannedResource } from '../../contracts/planned-resource.ts'
import { BUILT_IN_ROLES, roleDefinitionId, secretGetter } from '../../infra/model/roles.ts'
import { comparePlans, destroyed } from '../../tools/offline-plan/compare-plans.ts'
import { makePlan } from '../../tools/offline-plan/make-plan.ts'
import { renderPage } from '../../tools/offline-plan/page.ts'
import { reviewPlan } from '../../tools/offline-plan/review.ts'
import { COMPILE_CACHE } from '../helpers/compile-cache.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const run = promisify(execFile)

/** Creates a separate project with the fixture's program, outside the repository. */
async function aProject(settings: Record<string, unknown> = {}): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'plan-'))
  await cp(join(ROOT, 'test/fixtures/plan-project'), folder, { recursive: true })
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  await writeFile(join(folder, 'package.json'), '{"type":"module"}')
  await configure(folder, settings)
  return folder
}
async function configure(folder: string, settings: Record<string, unknown>): Promise<void> {
  const config = { 'agentweaver:size': 3, 'agentweaver:location': 'here', ...settings }
  await writeFile(join(folder, 'Pulumi.ok.yaml'), JSON.stringify({ config }))
}

let project = ''
beforeAll(async () => {
  project = await aProject()
})
afterAll(() => rm(project, { recursive: true }))

const plan = (...argv: string[]) =>
  run(process.execPath, [join(ROOT, 'tools/offline-plan/main.ts'), '--project', project, ...argv], {
    env: { ...COMPILE_CACHE, PATH: process.env['PATH'] },
  }).then(
    ({ stdout, stderr }) => ({ status: 0, stdout, stderr }),
    ({ code, stdout, stderr }: { code: number; stdout: string; stderr: string }) => ({
      status: code,
      stdout,
      stderr,
    }),
  )

describe('the engine of plans', () => {
  let made: Plan
  beforeAll(async () => {
    await configure(project, {})
    made = await makePlan(project, 'ok')
  })
  const inputsOf = (name: string) => made.resources.find((one) => one.name === name)?.inputs

  test('puts every resource after all its dependencies, regardless of names', () => {
    expect(made.resources.map(({ name }) => name)).toEqual(['vault', 'user', 'aaa-last'])
  })

  test('records that a value is secret, never the value', () => {
    expect(inputsOf('user')).toMatchObject({ password: { $secret: true }, text: { $secret: true } })
    expect(made.outputs['hidden']).toEqual({ $secret: true })
    expect(JSON.stringify(made)).not.toContain('horse')
  })

  test('names the resource that produces an unknown value', () => {
    expect(inputsOf('user')).toMatchObject({
      vault: { $unknown: 'urn:pulumi:ok::agentweaver::test:index:Thing::vault' },
      id2: { $unknown: 'urn:pulumi:ok::agentweaver::test:index:Thing::vault' },
    })
    expect(inputsOf('aaa-last')?.['all']).toEqual([{ $unknown: expect.stringContaining('::user') }, 'known'])
    expect(made.outputs['plain']).toBe('plain')
  })

  test('rejects two resources with one name, like the real engine', async () => {
    await configure(project, { 'agentweaver:twice': true })

    await expect(makePlan(project, 'ok')).rejects.toThrow(/Duplicate resource URN/)
  })

  test('reports the error of a program that throws', async () => {
    await configure(project, { 'agentweaver:broken': true })

    await expect(makePlan(project, 'ok')).rejects.toThrow(/the program has a mistake/)
  })

  test('passes none of this process’s environment to the program', async () => {
    const program = join(project, 'infra/index.ts')
    const source = await readFile(program, 'utf8')
    await writeFile(
      program,
      `export const seen = Object.keys(process.env).filter((key) => !key.startsWith('PULUMI_')).join()`,
    )
    const { outputs } = await makePlan(project, 'ok')
    await writeFile(program, source)

    expect(outputs['seen']).toBe('PATH')
  })
})

describe('npm run plan', () => {
  test('writes a plan, confirms it, and reports the changes of an edit', async () => {
    await configure(project, {})
    const first = await plan()
    const again = await plan('--check')
    await configure(project, { 'agentweaver:size': 4 })
    const edited = await plan('--check')

    expect(first).toMatchObject({ status: 0, stderr: 'wrote plans/ok.json\n' })
    expect(again).toMatchObject({ status: 0, stdout: expect.stringContaining('ok: as committed') })
    expect(edited.status).toBe(1)
    expect(edited.stderr).toContain('update test:index:Thing vault size')
  })

  test('rejects the replacement of a protected resource until --accept names it', async () => {
    await configure(project, {})
    await plan()
    await configure(project, { 'agentweaver:location': 'there' })
    const refused = await plan()
    const kept = JSON.parse(await readFile(join(project, 'plans/ok.json'), 'utf8'))
    const accepted = await plan('--accept', 'vault')

    expect(refused.status).toBe(1)
    expect(refused.stderr).toContain(
      'vault (test:index:Thing) is protected and would be replaced: location cannot',
    )
    expect(kept.resources[0].inputs.location).toBe('here')
    expect(accepted.status).toBe(0)
  })

  test('compares with another revision if the committed plan already hides the loss', async () => {
    const git = (...args: string[]) =>
      run('git', ['-c', 'user.name=a', '-c', 'user.email=a@b.example', ...args], { cwd: project })
    await configure(project, {})
    await plan('--accept', 'vault')
    await git('init', '-q')
    await git('add', 'plans')
    await git('commit', '-qm', 'base')
    await configure(project, { 'agentweaver:location': 'there' })
    await plan('--accept', 'vault')

    const blind = await plan('--check')
    const seeing = await plan('--check', '--base', 'HEAD')
    const unknown = await plan('--check', '--base', '--output=x')

    expect(blind.status).toBe(0)
    expect(seeing).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('vault (test:index:Thing) is protected'),
    })
    expect(unknown.status).toBe(2)
  })

  test('prints JSON, Markdown and its usage', async () => {
    await configure(project, {})
    const json = await plan('--json', '--accept', 'vault')
    const markdown = await plan('--markdown', '--accept', 'vault')
    const wrong = await plan('--shout')

    expect(JSON.parse(json.stdout)).toMatchObject({ stack: 'ok' })
    expect(markdown.stdout).toMatch(/^# Plan of ok\n/)
    expect(wrong).toMatchObject({ status: 2, stderr: expect.stringContaining('npm run plan --') })
  })
})

const aResource = (change: Partial<PlannedResource> = {}): PlannedResource => ({
  urn: 'urn:pulumi:a::b::azure-native:keyvault:Vault::v',
  type: 'azure-native:keyvault:Vault',
  name: 'v',
  custom: true,
  inputs: { vaultName: 'v', location: 'eastus2', tags: { a: '1' }, properties: { list: [1, 2] } },
  dependencies: [],
  protect: true,
  ignoreChanges: [],
  retainOnDelete: false,
  ...change,
})
const aPlan = (...resources: PlannedResource[]): Plan => ({
  project: 'b',
  stack: 'a',
  resources,
  outputs: {},
})
const withInputs = (inputs: PlannedResource['inputs'], change: Partial<PlannedResource> = {}) =>
  aResource({ inputs: { ...aResource().inputs, ...inputs }, ...change })

describe('the changes between two plans', () => {
  const before = aPlan(aResource())
  test.each([
    ['nothing', aPlan(aResource()), []],
    ['a tag', aPlan(withInputs({ tags: { a: '2' } })), ['update tags.a']],
    [
      'an entry of a list',
      aPlan(withInputs({ properties: { list: [1, 3] } })),
      ['update properties.list[1]'],
    ],
    ['a name', aPlan(withInputs({ vaultName: 'w' })), ['replace vaultName']],
    ['a region', aPlan(withInputs({ location: 'westus2', tags: {} })), ['replace location']],
    ['a value to come', aPlan(withInputs({ tags: { a: { $unknown: 'x' } } })), ['update tags.a']],
    ['an ignored change', aPlan(withInputs({ tags: {} }, { ignoreChanges: ['tags'] })), []],
    ['a removal', aPlan(), ['delete ']],
    [
      'a renamed parent',
      aPlan(aResource({ urn: 'urn:pulumi:a::b::x$azure-native:keyvault:Vault::v' })),
      ['delete ', 'create '],
    ],
    [
      'the end of a protection',
      aPlan(withInputs({ location: 'westus2' }, { protect: false })),
      ['replace location'],
    ],
  ] as const)('%s', (_what, after, expected) => {
    const changes = comparePlans(before, after)

    expect(
      changes.map(
        ({ action, paths, replacing }) => `${action} ${(action === 'replace' ? replacing : paths).join()}`,
      ),
    ).toEqual(expected)
    const isLoss = expected.some((one) => /^(delete|replace)/.test(one))
    expect(destroyed(changes)).toHaveLength(isLoss ? 1 : 0)
  })

  test('a change that Azure rejects in place counts as a replacement', () => {
    const server = (subnet: string) =>
      aResource({
        type: 'azure-native:dbforpostgresql:Server',
        inputs: { network: { delegatedSubnetResourceId: subnet } },
      })

    const [change] = comparePlans(aPlan(server('a')), aPlan(server('b')))
    expect(change).toMatchObject({ action: 'replace', replacing: ['network.delegatedSubnetResourceId'] })
  })

  test('removing only the protection does not hide a later deletion', () => {
    const freed = aPlan(aResource({ protect: false }))

    expect(comparePlans(before, freed).map(({ action }) => action)).toEqual(['unprotect'])
  })
})

describe('the page', () => {
  const after = aPlan(
    withInputs({ location: 'westus2', tags: { a: '2' } }),
    aResource({ urn: 'urn:pulumi:a::b::x::w' }),
  )
  const page = renderPage(reviewPlan(after), comparePlans(aPlan(aResource()), after), 'markdown')

  test('shows for each change whether it replaces the resource, and which property causes it', () => {
    expect(page).toContain('| change | resource | replaces it | changed properties |')
    expect(page).toContain(
      '| replace | azure-native:keyvault:Vault v | yes, for location: rejected, it is protected | location, tags.a |',
    )
    expect(page).toContain('| create | azure-native:keyvault:Vault v | no |  |')
  })

  test('counts like Pulumi: with providers, components and the stack itself', () => {
    const plan = aPlan(
      aResource(),
      aResource({ urn: 'p', type: 'pulumi:providers:azure-native', protect: false }),
      aResource({ urn: 'c', type: 'agentweaver:infra:Cluster', custom: false, protect: false }),
    )

    expect(renderPage(reviewPlan(plan), [], 'plain')).toContain(
      '1 resources, 1 of them protected from deletion. With 1 provider, 1 component and the stack itself Pulumi counts 4 on',
    )
  })
})

test('text from a branch is not rendered as Markdown', () => {
  const name = '[click](https://evil.example) | `x` <img src=x>'
  const page = renderPage(reviewPlan(aPlan(aResource({ name }))), [], 'markdown')

  expect(page).not.toContain('[click](')
  expect(page).not.toMatch(/(?<!\\)<img/)
})

test('a role is named by its role definition id, never by the name of the grant', () => {
  const scope = '/subscriptions/s1/resourceGroups/agentweaver-dev/providers/Microsoft.KeyVault/vaults/v'
  const roleOf = (roleDefinitionId: string) =>
    reviewPlan(
      aPlan(
        aResource({
          type: 'azure-native:authorization:RoleAssignment',
          name: 'agent-host: Agentweaver secret getter on v',
          inputs: { roleDefinitionId, scope, principalId: 'p' },
        }),
      ),
    ).access.map(({ role }) => role)

  expect(roleOf(secretGetter('s1', 'agentweaver-dev').definitionId)).toEqual(['Agentweaver secret getter'])
  expect(roleOf(roleDefinitionId('s1', BUILT_IN_ROLES.AcrPull))).toEqual(['AcrPull'])
  expect(roleOf(secretGetter('s1', 'agentweaver-prod').definitionId)).toEqual([
    expect.stringMatching(/^role [0-9a-f-]{36}$/),
  ])
})

test('the program runs with the Node arguments of the project file', async () => {
  const folder = await aProject()
  await writeFile(
    join(folder, 'Pulumi.yaml'),
    'main: infra/\nruntime:\n  options:\n    nodeargs: --max-semi-space-size=8 --title=x\n',
  )
  await writeFile(join(folder, 'infra/index.ts'), 'export const seen = process.execArgv.join(" ")')
  const { outputs } = await makePlan(folder, 'ok')
  await rm(folder, { recursive: true })

  expect(outputs['seen']).toBe('--max-semi-space-size=8 --title=x')
})
