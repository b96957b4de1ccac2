import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import { stateNames } from '../../infra/state/state-names.ts'
import { parseWorkflow, WORKFLOWS, workflowFaults, workflowText } from '../helpers/workflows.ts'
import { stateConfigOf } from '../infra/state-rig.ts'

const ROOT = resolve(import.meta.dirname, '../..')

test('there is a workflow for each duty', () => {
  expect(WORKFLOWS).toEqual([
    'check.yml',
    'drift.yml',
    'plan.yml',
    'preview-stack.yml',
    'promote.yml',
    'pulumi-preview.yml',
    'sweep.yml',
    'up.yml',
  ])
})

describe.each(WORKFLOWS)('%s', (file) => {
  const text = workflowText(file)
  const { jobs } = parseWorkflow(text)
  const steps = Object.values(jobs).flatMap((job) => job.steps)

  test('has none of the known security faults', () => {
    expect(workflowFaults(text)).toEqual([])
  })

  test('calls only scripts and commands that are here', () => {
    const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { scripts: object }
    const runs = steps.flatMap(({ run }) => (run === undefined ? [] : [run])).join('\n')
    const files = [...runs.matchAll(/node ((?:[\w-]+\/)+[\w-]+\.ts)/g)].map(([, path]) => path ?? '')
    const named = [...runs.matchAll(/npm run (?:--silent )?([a-z:]+)/g)].map(([, name]) => name ?? '')

    expect(files.filter((path) => !existsSync(join(ROOT, path)))).toEqual([])
    expect(named.filter((name) => !(name in scripts))).toEqual([])
  })

  test('logs in only as what an owner has made', () => {
    const gates = ['dev', 'prod'].flatMap((environment) => {
      const { gate } = stateNames(stateConfigOf(environment))
      return [gate('up'), gate('plan'), gate('preview')]
    })
    const used = Object.values(jobs).flatMap(({ environment }) =>
      environment === undefined ? [] : [environment],
    )
    const expanded = used.flatMap((name) =>
      name.includes('${{') ? ['dev', 'prod'].map((one) => name.replace(/\$\{\{.*?\}\}/, one)) : [name],
    )

    expect(expanded.filter((name) => !gates.includes(name))).toEqual([])
  })
})

test('the pull request that promote makes runs the checks, which a push by a workflow does not start', () => {
  const { jobs } = parseWorkflow(workflowText('promote.yml'))
  const runs = jobs['propose']?.steps.map(({ run = '' }) => run).join('\n') ?? ''

  expect(runs.indexOf('gh workflow run check.yml --ref "$branch"')).toBeGreaterThan(runs.indexOf('git push'))
  expect(jobs['propose']?.permissions['actions']).toBe('write')
  expect(parseWorkflow(workflowText('check.yml')).on).toHaveProperty('workflow_dispatch')
})

const GOOD = workflowText('preview-stack.yml')
const PLAN = workflowText('plan.yml')
const UP = workflowText('up.yml')
const PLANTED: readonly (readonly [string, string, RegExp])[] = [
  ['no kubelogin', GOOD.replaceAll('sudo az aks install-cli', 'echo none'), /without kubelogin/],
  [
    'kubelogin after the program',
    UP.replace('- run: sudo az aks', '- run: pulumi up\n      - run: sudo az aks'),
    /without kubelogin/,
  ],
  [
    'the program on a machine that GitHub hosts',
    UP.replace(/runs-on: .*/, 'runs-on: ubuntu-24.04'),
    /no repository variable chooses/,
  ],
  [
    'a machine of ours for code of anybody',
    PLAN.replace('runs-on: ubuntu-24.04', "runs-on: ${{ vars.RUNNER_DEV || 'ubuntu-24.04' }}"),
    /on a machine of ours without need/,
  ],
  [
    'a login of az to the cluster',
    UP.replace('--login workloadidentity', '--login azurecli'),
    /assertion that dies/,
  ],
  [
    'a program that is told of no login',
    GOOD.replaceAll('      AAD_LOGIN_METHOD: workloadidentity\n', ''),
    /assertion that dies/,
  ],
  [
    'a program that is told of another login',
    UP.replace('AAD_LOGIN_METHOD: workloadidentity', 'AAD_LOGIN_METHOD: azurecli'),
    /assertion that dies/,
  ],
  ['an action by tag', GOOD.replace(/azure\/login@\w{40}/, 'azure/login@v3'), /not pinned by commit/],
  ['a pin without its version', GOOD.replace(/ # v3\.0\.0/, ''), /no version beside/],
  [
    'the name of a branch in a script',
    GOOD.replace('--branch="$BRANCH"', '--branch=${{ github.head_ref }}'),
    /put into a script/,
  ],
  [
    'a target that has main’s rights',
    GOOD.replace('  pull_request:\n', '  pull_request_target:\n'),
    /rights of main/,
  ],
  [
    'a fork that logs in',
    GOOD.replaceAll('github.event.pull_request.head.repo.full_name == github.repository\n', 'true\n'),
    /a fork gets a token/,
  ],
  [
    'a login that nothing guards',
    GOOD.replace('    environment: dev-preview\n', ''),
    /without an environment/,
  ],
  ['a login from any branch', UP.replace("    if: github.ref == 'refs/heads/main'\n", ''), /from any branch/],
  ['a secret', GOOD.replace('vars.AZURE_TENANT_ID', 'secrets.AZURE_TENANT_ID'), /uses a secret/],
  [
    'a checkout of the head',
    GOOD.replace(
      'ref: ${{ github.event.pull_request.base.sha }}',
      'ref: ${{ github.event.pull_request.head.sha }}',
    ),
    /checks out/,
  ],
  [
    'a group that anybody joins',
    GOOD.replace(
      'preview-stack-${{ github.event.pull_request.number }}',
      'preview-stack-${{ github.head_ref }}',
    ),
    /anybody chooses its group/,
  ],
  [
    'a writer that runs the branch',
    PLAN.replace('          ref: ${{ github.event.pull_request.base.sha }}\n', ''),
    /writes while it runs code/,
  ],
  [
    'a token that is left behind',
    GOOD.replace('persist-credentials: false', 'persist-credentials: true'),
    /leaves its token/,
  ],
]
test.each(PLANTED)('%s is found', (_, text, found) => {
  expect([GOOD, PLAN, UP]).not.toContain(text)
  expect(workflowFaults(text).join('\n')).toMatch(found)
})

test.each([
  [
    'no permissions of a job',
    GOOD.replace(/ {4}permissions:\n {6}contents: read\n {6}id-token: write\n/, ''),
  ],
  ['all permissions', GOOD.replace('permissions: {}', 'permissions: write-all')],
  ['no concurrency group', GOOD.replace(/concurrency:\n.*\n.*\n/, '')],
  ['no end', GOOD.replace(/ {4}timeout-minutes: \d+\n/, '')],
])('%s is refused', (_, text) => {
  expect(text).not.toBe(GOOD)
  expect(() => workflowFaults(text)).toThrow()
})
