import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { previewSlug } from '../../infra/model/preview-slug.ts'
import { byYaml11 } from '../infra/other-yaml-readers.ts'
import { type AnswerName, readAnswers } from './pulumi-answers.ts'
import { aFolder, runCli, startCli, until } from './run-cli.ts'
import { aStandIn } from './stand-in.ts'

const BASE =
  'config:\n  agentweaver:kind: platform\n  agentweaver:tags: { owner: platform, costCenter: "42" }\n'
const HOUR_MS = 3_600_000

const answers = readAnswers()

interface Planted {
  readonly words: string
  readonly stack?: string
  readonly answer: (typeof answers)[AnswerName]
}
const nameOf = (branch: string) => `pr-${previewSlug(branch)}`

/** Recorded output of `stack ls`, with other stacks in it. */
function listed(stacks: readonly { name: string; lastUpdate?: string }[]): Planted {
  const [row] = JSON.parse(answers.list.stdout) as object[]
  const rows = stacks.map(({ name, lastUpdate }) => ({ ...row, name, lastUpdate }))
  return {
    words: 'stack ls',
    answer: { ...answers.list, stdout: JSON.stringify(rows) },
  }
}
/** Recorded output of `stack export`, with another expiry or none. */
function exported(stack: string, expires?: Date): Planted {
  const was = /"expires":"[^"]*"/g
  const { export: recorded } = answers
  const stdout = recorded.stdout.replaceAll(
    was,
    expires ? `"expires":"${expires.toISOString()}"` : '"nothing":""',
  )
  return { words: 'stack export', stack, answer: { ...recorded, stdout } }
}
const always = (words: string, name: AnswerName, stack?: string): Planted => ({
  words,
  answer: answers[name],
  ...(stack !== undefined && { stack }),
})

/** A folder with the stack file of `dev`, and a fake `pulumi` with recorded output. */
async function aProject(...planted: readonly Planted[]) {
  const pulumi = await aStandIn('pulumi', 'pulumi-stand-in.ts')
  const cwd = await aFolder('aw-project-')
  writeFileSync(join(cwd, 'Pulumi.dev.yaml'), BASE)
  // Pulumi must not get the API key: the fake fails if it sees the key.
  const env = { ...pulumi.env, AGENTWEAVER_API_KEY: 'k' }
  const answer = (...more: readonly Planted[]) =>
    writeFileSync(
      join(pulumi.state, 'answers.json'),
      JSON.stringify([
        ...more,
        always('stack select', 'select'),
        always('stack output', 'output'),
        always('up', 'up'),
        always('destroy', 'destroy'),
        listed([]),
      ]),
    )
  answer(...planted)
  return {
    cwd,
    pulumi,
    answer,
    preview: (...argv: string[]) => runCli(['preview-stack', ...argv], { cwd, env }),
    fileOf: (stack: string) => join(cwd, `Pulumi.${stack}.yaml`),
    destroyed: () =>
      pulumi.calls().flatMap((call) => (call[0] === 'destroy' ? [call[call.indexOf('--stack') + 1]] : [])),
  }
}
const PAST = new Date(Date.now() - HOUR_MS)
const FUTURE = new Date(Date.now() + HOUR_MS)

test('up, status and down create, show and remove a slice of the environment with an expiry', async () => {
  const { preview, fileOf, pulumi, answer, destroyed } = await aProject()
  const stack = nameOf('fix/egress')
  const before = Date.now()

  const made = await preview(
    ...['up', '--branch', 'fix/egress', '--hours', '2', '--json'],
    ...['--secrets-provider', 'azurekeyvault://v/keys/k'],
  )

  expect(made.status, made.stderr).toBe(0)
  const told = JSON.parse(made.stdout)
  expect(told).toMatchObject({ stack, outputs: { infra: { cluster: { name: 'agentweaver-dev' } } } })
  expect(Date.parse(told.expires)).toBeGreaterThanOrEqual(before - 1_000 + 2 * HOUR_MS)
  expect(Date.parse(told.expires)).toBeLessThanOrEqual(Date.now() + 2 * HOUR_MS)
  const text = readFileSync(fileOf(stack), 'utf8')
  expect(parse(text)).toEqual({
    secretsprovider: 'azurekeyvault://v/keys/k',
    encryptedkey: 'd3JhcHBlZA==',
    config: {
      'agentweaver:kind': 'slice',
      'agentweaver:environment': 'dev',
      'agentweaver:slug': previewSlug('fix/egress'),
      'agentweaver:branch': 'fix/egress',
      'agentweaver:expires': told.expires,
      'agentweaver:tags': { owner: 'platform', costCenter: '42' },
    },
  })
  // Go's reader takes a bare time for a time, and the program would get another text.
  expect(byYaml11(text)).toEqual(parse(text))
  const up = pulumi.calls().find(([first]) => first === 'up')
  expect(up).toEqual(expect.arrayContaining(['--stack', stack, '--policy-pack', 'policies/stack']))
  expect(up).not.toContain('--skip-preview')

  answer(listed([{ name: stack }]), exported(stack, FUTURE))
  const status = await preview('status', '--branch', 'fix/egress', '--json')
  const resources = JSON.parse(answers.export.stdout).deployment.resources.length - 1
  expect(JSON.parse(status.stdout)).toMatchObject({ exists: true, resources, isExpired: false })

  const down = await preview('down', '--branch', 'fix/egress', '--json')
  expect({ status: down.status, ...JSON.parse(down.stdout) }).toEqual({ status: 0, stack, destroyed: true })
  expect([destroyed(), existsSync(fileOf(stack))]).toEqual([[stack], false])
  answer()
  expect((await preview('status', '--branch', 'fix/egress')).status).toBe(3)
  expect((await preview('down', '--branch', 'fix/egress')).status).toBe(0)
})

test('a second up changes only the expiry, also on a machine that has never seen the stack', async () => {
  const { preview, fileOf, cwd } = await aProject()
  const stack = nameOf('a')
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
  const stack = nameOf(branch)
  for (const call of pulumi.calls()) {
    expect(call[call.indexOf('--stack') + 1]).toBe(stack)
    expect(call.filter((word) => word === branch || word.includes('touch owned'))).toEqual([])
  }
  const { config } = parse(readFileSync(join(cwd, `Pulumi.${stack}.yaml`), 'utf8'))
  expect(config['agentweaver:kind']).toBe('slice')
})

test('sweep destroys expired previews, and nothing that is alive, in use or not a preview', async () => {
  const [old, young, halfway, fresh, never] = ['old', 'young', 'halfway', 'fresh', 'never'].map(nameOf) as [
    string,
    ...string[],
  ]
  const before = '2020-01-01T00:00:00Z'
  const { preview, destroyed } = await aProject(
    listed([
      { name: old, lastUpdate: before },
      { name: young ?? '', lastUpdate: before },
      { name: halfway ?? '', lastUpdate: before },
      { name: fresh ?? '', lastUpdate: new Date().toISOString() },
      { name: never ?? '' },
      ...['dev', 'prod', 'pr-notaslug'].map((name) => ({ name, lastUpdate: before })),
    ]),
    exported(old, PAST),
    exported(young ?? '', FUTURE),
    ...[halfway, fresh, never].map((name) => exported(name ?? '')),
  )

  const dry = await preview('sweep', '--dry-run', '--json')
  const due = JSON.parse(dry.stdout).stacks.filter(({ did }: { did: string }) => did === 'would destroy')
  expect(due.map((one: { stack: string }) => one.stack)).toEqual([old, halfway])
  expect(destroyed()).toEqual([])

  const { status, stdout } = await preview('sweep')

  expect(status).toBe(0)
  expect(stdout).toMatch(/destroyed\s+expired/)
  expect(destroyed()).toEqual([old, halfway])
})

test('a preview that cannot be destroyed does not stop the sweep, and its reason is printed', async () => {
  const [first, second] = [nameOf('aa'), nameOf('bb')]
  const { preview } = await aProject(
    listed([{ name: first }, { name: second }]),
    exported(first, PAST),
    exported(second, PAST),
    always('destroy', 'failed', first),
  )

  const { status, stdout } = await preview('sweep', '--json')

  expect(status).toBe(1)
  expect(JSON.parse(stdout).stacks).toMatchObject([
    { did: 'failed', why: expect.stringMatching(/UserAssignedIdentity \S+: Status=500/) },
    { did: 'destroyed' },
  ])
})

describe('a failure of Pulumi', () => {
  const stack = nameOf('a')
  const up = async (name: AnswerName) => {
    const { preview } = await aProject(always('up', name, stack))
    return preview('up', '--branch', 'a')
  }

  test('lists rule, resource and remedy if the policy pack rejects the stack', async () => {
    const { status, stderr } = await up('refused')

    expect(status).toBe(1)
    expect(stderr).toContain(`error: pulumi up failed for ${stack}:`)
    expect(stderr).toMatch(
      /^ {2}policy regions: managedidentity:UserAssignedIdentity \S+: location is "eastus2": use a region of the list/m,
    )
    expect(stderr).not.toMatch(/preview failed|data stays where it may be/)
  })

  test('lists the resource if Azure rejects it', async () => {
    const { stderr } = await up('failed')

    expect(stderr).toMatch(/^ {2}managedidentity:UserAssignedIdentity \S+: Status=500/m)
    expect(stderr).not.toContain('update failed')
  })

  test('prints the command that removes the lock if the stack is locked', async () => {
    const { status, stderr } = await up('locked')

    expect(status).toBe(1)
    expect(stderr).toContain('currently locked')
    expect(stderr).toContain(`pulumi cancel --stack ${stack}`)
  })

  test.each([
    [new Date(), 'kept', 0],
    [new Date(Date.now() - 3 * HOUR_MS), 'failed', 1],
  ] as const)('a lock of %s is %s by sweep', async (since, did, exit) => {
    const locked = answers.locked
    const stderr = locked.stderr.replace(/ at \S+\n$/, ` at ${since.toISOString()}\n`)
    const { preview } = await aProject(listed([{ name: stack }]), exported(stack, PAST), {
      words: 'destroy',
      stack,
      answer: { ...locked, stderr },
    })

    const { status, stdout } = await preview('sweep', '--json')

    expect({ status, ...JSON.parse(stdout).stacks[0] }).toMatchObject({ status: exit, did })
  })

  test('shows at most twenty findings and the number of the others', async () => {
    const [line = ''] = answers.refused.events.split('\n')
    const events = Array.from({ length: 30 }, (_, n) =>
      line.replace(/("resourceUrn":"[^"]+)"/, `$1-${n}"`),
    ).join('\n')
    const many = { ...answers.refused, events }
    const { preview } = await aProject({ words: 'up', stack, answer: many })

    const { stderr } = await preview('up', '--branch', 'a')

    expect(stderr.match(/^ {2}policy regions/gm)).toHaveLength(20)
    expect(stderr).toContain('and 10 more')
  })
})

test.each([
  [['up'], /required option '--branch/],
  [['up', '--branch', 'a', '--hours', '0'], /--hours/],
  [['up', '--branch', 'a', '--hours', '169'], /--hours/],
  [['up', '--branch', 'a', '--environment', '../x'], /--environment/],
  [['up', '--branch', 'a', '--environment', 'none'], /no file Pulumi\.none\.yaml/],
  [['up', '--branch', ''], /--branch/],
  [['up', '--branch', 'a', '--environment', 'prod'], /prod has no previews/],
])('rejects %j without calling Pulumi', async (argv, expected) => {
  const { preview, pulumi } = await aProject()

  const { status, stderr } = await preview(...argv)

  expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringMatching(expected) })
  expect(pulumi.calls()).toEqual([])
})

test('prints where to install Pulumi if it is missing', async () => {
  const cwd = await aFolder('aw-project-')
  writeFileSync(join(cwd, 'Pulumi.dev.yaml'), BASE)

  const { status, stderr } = await runCli(['preview-stack', 'up', '--branch', 'a'], {
    cwd,
    env: { PATH: cwd },
  })

  expect(status).toBe(5)
  expect(stderr).toMatch(/pulumi is not on the PATH[\s\S]*pulumi\.com/)
})

test('waits until Pulumi has ended after an interrupt', async () => {
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
  expect(JSON.parse(await output)).toHaveProperty('outputs.infra')
})

test.each([
  ['up', ['--branch', 'fix/egress']],
  ['sweep', []],
])('%s rejects an empty secrets provider before it changes anything', async (verb, more) => {
  const { preview, pulumi, fileOf } = await aProject()

  const { status, stderr } = await preview(verb, ...more, '--secrets-provider', '')

  expect(status).toBe(2)
  expect(stderr).toContain('The secrets provider is empty.')
  expect(pulumi.calls()).toEqual([])
  expect(existsSync(fileOf(`pr-${previewSlug('fix/egress')}`))).toBe(false)
})
