import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { saidBy } from '../../infra/up/engine.ts'
import { findStacks } from '../../infra/up/find-stacks.ts'
import { createProgress } from '../../infra/up/progress.ts'
import { type Changes, type Engine, lossOf, type Outcome, raise } from '../../infra/up/raise.ts'
import { COMPILE_CACHE } from '../helpers/compile-cache.ts'

const ROOT = resolve(import.meta.dirname, '../..')
let project = ''
beforeAll(async () => {
  project = await mkdtemp(join(tmpdir(), 'up-'))
})
afterAll(() => rm(project, { recursive: true }))

/** A fake engine that only records its calls, in order. */
function anEngine({
  there = [],
  outcomes = {},
}: {
  there?: readonly string[]
  outcomes?: Readonly<Record<string, Outcome>>
}) {
  const asked: string[] = []
  const made = new Set(there)
  const changes: Changes = { create: 3, same: 1 }
  const engine: Engine = {
    async open(stack, mayCreate) {
      if (!made.has(stack) && !mayCreate) return undefined
      made.add(stack)
      const answer = async (verb: string): Promise<Outcome> => {
        asked.push(`${verb} ${stack}`)
        return outcomes[`${verb} ${stack}`] ?? { changes, losses: [] }
      }
      return { preview: () => answer('preview'), up: () => answer('up') }
    },
    hasBoundary: async (stack) => there.includes(stack),
  }
  return { engine, asked, made }
}

async function run(
  fake: ReturnType<typeof anEngine>,
  {
    isPreview = false,
    confirm = async () => true,
  }: { isPreview?: boolean; confirm?: () => Promise<boolean> } = {},
) {
  const lines: string[] = []
  const found = await findStacks(ROOT, 'prod')
  const report = await raise(fake.engine, {
    environment: 'prod',
    found,
    isPreview,
    say: (line) => lines.push(line),
    confirm,
  })
  return { report, text: lines.join('\n') }
}
const statuses = ({ layers }: { layers: readonly { status: string }[] }) => layers.map(({ status }) => status)

describe('creating an environment', () => {
  test('previews each layer before it changes it, in order', async () => {
    const fake = anEngine({})
    const { report } = await run(fake)

    expect(fake.asked).toEqual([
      'preview prod-network',
      'up prod-network',
      'preview prod-cluster',
      'up prod-cluster',
      'preview prod-add-ons',
      'up prod-add-ons',
    ])
    expect(report).toMatchObject({ ok: true })
    expect(report.next).toBeUndefined()
  })

  test('stops at the first layer whose preview fails, and changes nothing in it', async () => {
    const problems = ['policy tags: network:VirtualNetwork x: tags.owner is not set']
    const fake = anEngine({ outcomes: { 'preview prod-cluster': { problems, isLocked: false } } })
    const { report, text } = await run(fake)

    expect(fake.asked.at(-1)).toBe('preview prod-cluster')
    expect(statuses(report)).toEqual(['raised', 'failed'])
    expect(report.next).toMatch(
      /Fix the problems above, then run: npm run up -- --stack prod\. It continues with prod-cluster/,
    )
    expect(text).toContain(problems[0])
  })

  test('reports that the last layer must be created from inside the network', async () => {
    const outcome = { problems: ['cluster is unreachable'], isLocked: false }
    const { report } = await run(anEngine({ outcomes: { 'up prod-add-ons': outcome } }))

    expect(statuses(report)).toEqual(['raised', 'raised', 'failed'])
    expect(report.next).toMatch(/private: run it inside the network/)
  })

  test('names the command that clears a lock', async () => {
    const problems = ['error: the stack is currently locked by 1 lock(s)']
    const { report } = await run(anEngine({ outcomes: { 'up prod-network': { problems, isLocked: true } } }))

    expect(report.next).toContain('pulumi cancel --stack prod-network')
  })

  test('changes nothing after a declined confirmation, and stops', async () => {
    const fake = anEngine({})
    const { report } = await run(fake, { confirm: async () => false })

    expect(fake.asked).toEqual(['preview prod-network'])
    expect(report).toMatchObject({ ok: false, layers: [{ status: 'declined' }] })
  })

  test('asks for no confirmation of a layer that would not change', async () => {
    const same = { changes: { same: 4 }, losses: [] }
    const fake = anEngine({
      outcomes: Object.fromEntries(
        ['prod-network', 'prod-cluster', 'prod-add-ons'].map((stack) => [`preview ${stack}`, same]),
      ),
    })
    const { report } = await run(fake, {
      confirm: () => Promise.reject(new Error('nobody is asked')),
    })

    expect(report.ok).toBe(true)
  })

  test('a preview creates no stack and reports which layer waits for which', async () => {
    const fake = anEngine({ there: ['prod-network'] })
    const { report, text } = await run(fake, { isPreview: true })
    const nothing = anEngine({})
    const absent = await run(nothing, { isPreview: true })

    expect(fake.asked).toEqual(['preview prod-network'])
    expect([...fake.made]).toEqual(['prod-network'])
    expect(statuses(report)).toEqual(['previewed', 'absent', 'waiting'])
    expect(text).toContain('npm run plan -- --stack prod-cluster')
    expect(statuses(absent.report)).toEqual(['absent', 'waiting', 'waiting'])
    expect(nothing.made.size).toBe(0)
  })

  test('lists the resources that would be deleted, by name', async () => {
    const urn = 'urn:pulumi:prod-cluster::agentweaver::a$azure-native:keyvault:Vault::users'
    const losses = [lossOf('replace', urn) ?? '', lossOf('delete', urn) ?? '']
    const { text } = await run(
      anEngine({ outcomes: { 'preview prod-cluster': { changes: { replace: 1 }, losses } } }),
    )

    expect(text).toContain('would replace keyvault:Vault users')
    expect(text).toContain('would delete keyvault:Vault users')
    expect(lossOf('update', urn)).toBeUndefined()
  })
})

test('progress reports the start and end of each resource, except groups and providers', () => {
  const lines: string[] = []
  const progress = createProgress((line) => lines.push(line))
  const step = (op: string, type: string) => ({
    metadata: { op, type, urn: `urn:pulumi:a::b::c$${type}::one` },
  })
  progress({ resourcePreEvent: step('create', 'azure-native:keyvault:Vault') })
  progress({ resOutputsEvent: step('create', 'azure-native:keyvault:Vault') })
  progress({ resOpFailedEvent: step('update', 'azure-native:network:Subnet') })
  for (const type of [
    'agentweaver:infra:Network',
    'pulumi:providers:azure-native',
    'pulumi:pulumi:StackReference',
  ])
    progress({ resOutputsEvent: step('create', type) })
  progress({ resOutputsEvent: step('same', 'azure-native:keyvault:Vault') })

  expect(lines.map((line) => line.trim())).toEqual([
    'creating keyvault:Vault one',
    'created keyvault:Vault one (1)',
    'updating network:Subnet one failed',
  ])
})

test('reports only the output of the CLI when a call fails', () => {
  const text = (out: string, err: string) =>
    new Error(`code: 255\n stdout: ${out}\n stderr: ${err}\n err?: \n`)

  expect(saidBy(text('Previewing', 'error: passphrase must be set\n'))).toEqual([
    'error: passphrase must be set',
  ])
  expect(saidBy(text('one\n\ntwo', ''))).toEqual(['one', 'two'])
  expect(saidBy(new Error('spawn failed'))).toEqual(['spawn failed'])
  expect(saidBy(text('', Array.from({ length: 40 }, (_, index) => `line ${index}`).join('\n')))).toHaveLength(
    12,
  )
})

describe('the stacks of an environment', () => {
  test('are its layers up to the given one, or its single stack', async () => {
    const names = async (environment: string, last?: 'network' | 'cluster') =>
      (await findStacks(ROOT, environment, last)).stacks.map(({ stack }) => stack)

    expect(await names('prod')).toEqual(['prod-network', 'prod-cluster', 'prod-add-ons'])
    expect(await names('prod', 'cluster')).toEqual(['prod-network', 'prod-cluster'])
    expect(await names('dev')).toEqual(['dev'])
  })

  test.each([
    ['dev', 'network', /dev is a single stack without layers: remove --to network/],
    ['prod-cluster', undefined, /is not the file of an environment/],
    ['pr-example', undefined, /is not the file of an environment/],
    ['nothing', undefined, /Pulumi\.nothing\.yaml does not exist/],
  ] as const)('rejects %s up to %s', async (environment, last, message) => {
    await expect(findStacks(ROOT, environment, last)).rejects.toThrow(message)
  })

  test('rejects a private platform without stack files of layers, and lists the files to write', async () => {
    await cp(join(ROOT, 'Pulumi.prod.yaml'), join(project, 'Pulumi.prod.yaml'))
    await expect(findStacks(project, 'prod')).rejects.toThrow(/Pulumi\.prod-add-ons\.yaml/)

    await cp(join(ROOT, 'Pulumi.prod-network.yaml'), join(project, 'Pulumi.prod-network.yaml'))
    await expect(findStacks(project, 'prod')).rejects.toThrow(
      /some layers only\. Missing: Pulumi\.prod-cluster/,
    )
  })

  test('rejects a stack file that contains another layer', async () => {
    for (const layer of ['network', 'cluster', 'add-ons'])
      await cp(join(ROOT, 'Pulumi.prod-network.yaml'), join(project, `Pulumi.prod-${layer}.yaml`))

    await expect(findStacks(project, 'prod')).rejects.toThrow(
      'Pulumi.prod-cluster.yaml must be the layer cluster of the environment prod',
    )
  })
})

describe('npm run up', () => {
  const up = (path: string, ...argv: string[]) =>
    promisify(execFile)(process.execPath, [join(ROOT, 'infra/up/main.ts'), ...argv], {
      env: { ...COMPILE_CACHE, PATH: path },
    }).then(
      ({ stdout, stderr }) => ({ status: 0, stdout, stderr }),
      ({ code, stdout, stderr }: { code: number; stdout: string; stderr: string }) => ({
        status: code,
        stdout,
        stderr,
      }),
    )

  test('without a CLI on the PATH prints how to install it', async () => {
    const ran = await up('/nowhere', '--stack', 'prod', '--preview')

    expect(ran.status).toBe(1)
    expect(ran.stderr).toMatch(
      /no pulumi on the PATH\. Install the Pulumi CLI 3\.250\.0 or later:\n.*pulumi\.com/,
    )
  })

  test('with an older CLI prints the required version', async () => {
    const bin = join(project, 'bin')
    await mkdir(bin)
    await writeFile(join(bin, 'pulumi'), '#!/bin/sh\necho v3.100.0\n', { mode: 0o755 })
    await symlink('/bin/sh', join(bin, 'sh'))
    const ran = await up(bin, '--stack', 'prod', '--preview')

    expect(ran.status).toBe(1)
    expect(ran.stderr).toContain('pulumi v3.100.0 is older than 3.250.0')
  })

  test.each([
    [[], /--stack needs the name/],
    [['--stack', '--help=x'], /npm run up --/],
    [['--stack', 'prod'], /pass --yes to apply the changes, or --preview/],
    [['--stack', 'prod', '--json'], /pass --yes/],
    [['--stack', 'prod', '--yes', '--to', 'addons'], /--to must be one of network, cluster, add-ons/],
    [['--stack', '../x', '--yes'], /--stack needs the name/],
  ])('rejects the arguments %o before it calls Pulumi', async (argv, message) => {
    const ran = await up('/nowhere', ...argv)

    expect(ran.status).toBe(2)
    expect(ran.stderr).toMatch(message)
    expect(ran.stdout).toBe('')
  })
})
