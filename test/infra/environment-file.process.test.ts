import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { withOutputs } from '../../infra/outputs/environment-file.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const dev = await readFile(join(ROOT, 'environments/dev.json'), 'utf8')
const outputs = (change: object = {}) => ({ infra: { ...JSON.parse(dev).infra, ...change } })

test('leaves a file with the same outputs unchanged, byte for byte, for any order of keys', () => {
  const infra = Object.fromEntries(Object.entries(outputs().infra).reverse())

  expect(withOutputs(dev, { infra })).toEqual({ content: dev, isSame: true })
})

test('replaces the outputs of the stack, and keeps all other content', () => {
  const result = withOutputs(dev, outputs({ registry: { host: 'other.azurecr.io' } }))

  if (!('content' in result)) throw new Error('refused')
  const { infra, ...rest } = JSON.parse(result.content)
  const { infra: before, ...others } = JSON.parse(dev)
  expect(rest).toEqual(others)
  expect(infra).toEqual({ ...before, registry: { host: 'other.azurecr.io' } })
  expect(Object.keys(infra)).toEqual(Object.keys(before))
})

test.each([
  ['no outputs', {}, /has no output infra/],
  ['a value that was not known', outputs({ cluster: { name: 'a', issuer: '' } }), /^infra\.cluster\.issuer/],
  ['a key that the schema lacks', outputs({ password: 'x' }), /password/],
  ['a hidden secret', outputs({ registry: { host: '[secret]' } }), /contains a secret/],
  ['a shown secret', outputs({ dns: { '4dabf18193072939515e22adb298388d': 'x' } }), /contains a secret/],
])('rejects %s', (_what, given, expected) => {
  const result = withOutputs(dev, given)

  expect('problems' in result && result.problems.join()).toMatch(expected)
})

test('the command writes an environment file from the pulumi outputs', async () => {
  const project = await mkdtemp(join(tmpdir(), 'environment-'))
  await mkdir(join(project, 'environments'))
  await writeFile(join(project, 'environments/dev.json'), dev)
  await writeFile(
    join(project, 'said.json'),
    JSON.stringify(outputs({ registry: { host: 'other.azurecr.io' } })),
  )
  const run = (...argv: string[]) =>
    promisify(execFile)(process.execPath, [
      join(ROOT, 'infra/outputs/main.ts'),
      '--project',
      project,
      ...argv,
    ]).then(
      () => 0,
      ({ code }: { code: number }) => code,
    )
  const from = ['--stack', 'dev', '--from', join(project, 'said.json')]

  expect(await run(...from, '--check')).toBe(1)
  expect(await run(...from)).toBe(0)
  expect(await run(...from, '--check')).toBe(0)
  expect(await run('--stack', '../dev')).toBe(2)
  expect(JSON.parse(await readFile(join(project, 'environments/dev.json'), 'utf8')).infra.registry.host).toBe(
    'other.azurecr.io',
  )
  await rm(project, { recursive: true })
})
