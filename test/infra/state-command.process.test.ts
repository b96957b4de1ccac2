import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parseStateConfig } from '../../infra/state/state-config.ts'
import { stateParameters } from '../../infra/state/state-parameters.ts'
import { aStandIn } from '../cli/stand-in.ts'
import { stateFileOf as fileOf, ROOT, stateConfigOf } from './state-rig.ts'

const DEV = stateConfigOf('dev')
const PROD = stateConfigOf('prod')

const valuesOf = (parameters: Record<string, { value: unknown }>) =>
  Object.fromEntries(Object.entries(parameters).map(([name, { value }]) => [name, value]))

describe('npm run state', () => {
  async function rig() {
    const az = await aStandIn('az', 'az-stand-in.ts')
    const run = (...argv: string[]) =>
      spawnSync(process.execPath, [join(ROOT, 'infra/state/main.ts'), ...argv], {
        env: { ...az.env, TMPDIR: az.state },
        encoding: 'utf8',
      })
    return { az, run }
  }

  test('deploys state.bicep with the printed parameters to the subscription of the file, and prints the variables for GitHub', async () => {
    const { az, run } = await rig()

    const { status, stdout } = run('apply', fileOf('dev'))

    expect(status).toBe(0)
    const given = JSON.parse(readFileSync(join(az.state, 'parameters.json'), 'utf8'))
    expect(given).toEqual(JSON.parse(run('parameters', fileOf('dev')).stdout))
    expect(valuesOf(given.parameters)).toEqual(stateParameters(DEV))
    const [call = []] = az.calls()
    expect(call.slice(0, 5)).toEqual(['deployment', 'sub', 'create', '--subscription', DEV.subscriptionId])
    expect(call[call.indexOf('--template-file') + 1]).toBe(join(ROOT, 'infra/state/state.bicep'))
    expect(stdout).toContain(
      'environment dev-preview\n  AZURE_CLIENT_ID=33333333-0000-4000-8000-000000000000',
    )
    expect(stdout).not.toMatch(/secret=|password|key=/i)
    const [file = ''] = call.filter((argument) => argument.startsWith('@'))
    expect(existsSync(file.slice(1))).toBe(false)
  })

  test('what-if prints the predicted changes and deploys nothing', async () => {
    const { az, run } = await rig()

    expect(run('what-if', fileOf('dev')).stdout).toContain('1 to create')
    expect(az.calls()[0]?.slice(0, 3)).toEqual(['deployment', 'sub', 'what-if'])
  })

  test('reports that Azure rejected the deployment', async () => {
    const { az, run } = await rig()
    writeFileSync(join(az.state, 'refuse'), '')

    const { status, stderr } = run('apply', fileOf('dev'))

    expect({ status, stderr }).toEqual({ status: 1, stderr: expect.stringContaining('AuthorizationFailed') })
    expect(readdirSync(az.state).filter((name) => name.startsWith('agentweaver-state-'))).toEqual([])
  })

  test.each([
    [['apply'], /Usage/],
    [['destroy', fileOf('dev')], /Usage/],
    [['apply', '/nowhere.json'], /cannot be read/],
  ])('rejects the arguments %j and does not call az', async (argv, expected) => {
    const { az, run } = await rig()

    const { status, stderr } = run(...argv)

    expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringMatching(expected) })
    expect(az.calls()).toEqual([])
  })
})

test.each([
  ['an unknown key', { ...DEV, admin: true }, /Unrecognized key/],
  ['a foreign repository', { ...DEV, repository: 'a/b:environment:prod' }, /repository/],
  ['previews in prod', { ...PROD, previews: true }, /previews: must be false in prod/],
  ['no ranges', { ...DEV, reachedFrom: [] }, /reachedFrom/],
  ['a name that storage refuses', { ...DEV, names: { storage: 'With-Capitals' } }, /names\.storage/],
])('rejects %s', (_, config, expected) => {
  const parsed = parseStateConfig(JSON.stringify(config))

  expect('problems' in parsed && parsed.problems.join('\n')).toMatch(expected)
})
