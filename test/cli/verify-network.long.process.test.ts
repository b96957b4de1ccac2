import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type CommittedTree, inMode, readCommittedTree } from '../cluster/packets/committed-tree.ts'
import { startRenderedCluster } from './rendered-cluster.ts'
import { aFolder, runCli } from './run-cli.ts'

type Verified = { readonly check: string; readonly state: string; readonly detail: string }

/** Runs `agentweaver verify` against a cluster with the network policies of a tree. */
async function verify(tree: CommittedTree, ...argv: string[]) {
  await using cluster = await startRenderedCluster(tree)
  const cwd = await aFolder('aw-verify-network-')
  mkdirSync(join(cwd, 'environments'))
  const name = tree.environment.name
  writeFileSync(join(cwd, `environments/${name}.json`), JSON.stringify(tree.environment))
  const { status, stdout, stderr } = await runCli(
    ['verify', '--env', name, '--json', '--only', 'fences,names', ...argv],
    { cwd, env: cluster.env },
  )
  if (stdout === '') throw new Error(stderr)
  const checks: Verified[] = JSON.parse(stdout).checks
  const told = Object.fromEntries(checks.map(({ check, state, detail }) => [check, `${state}: ${detail}`]))
  return { status, told, made: cluster.made }
}

const without = (tree: CommittedTree, name: string): CommittedTree => ({
  ...tree,
  policies: tree.policies.filter(({ metadata }) => metadata.name !== name),
})

const inModeFqdn = (name: string) => inMode(readCommittedTree(name), 'fqdn')

describe.each(['dev', 'local', 'pr-example', 'prod'])('the tree of %s in mode fqdn', (name) => {
  test('passes, probed from the class that the policy allows to connect', async () => {
    const tree = inModeFqdn(name)

    const { status, told, made } = await verify(tree)

    expect(told).toEqual({
      fences: expect.stringMatching(/^pass: \d+ targets, probed from class agent$/),
      names: expect.stringMatching(
        /^pass: class agent reaches .*api\.github\.com:443.* and not example\.com:443$/,
      ),
    })
    expect({ status, made }).toEqual({ status: 0, made: ['agent'] })
  })
})

describe('a wrong tree', () => {
  test('fails and lists the open connections without its network policies', async () => {
    const { status, told } = await verify({ ...inModeFqdn('dev'), policies: [] })

    expect(told['fences']).toMatch(/^fail: a sandbox reaches .*169\.254\.169\.254:80/)
    expect(told['names']).toMatch(/^fail: example\.com:443 is not allowed, but reachable$/)
    expect(status).toBe(1)
  })

  test('fails if the tree allows a name that the policy does not list', async () => {
    const tree = inModeFqdn('dev')
    const renamed = JSON.stringify(tree.policies).replaceAll('"api.github.com"', '"example.com"')

    const { status, told } = await verify({ ...tree, policies: JSON.parse(renamed) })

    expect(told['names']).toMatch(/^fail: example\.com:443 is not allowed, but reachable$/)
    expect(status).toBe(1)
  })

  test('does not count silence as a pass if the class cannot connect at all', async () => {
    const { status, told } = await verify(without(inModeFqdn('dev'), 'agent-egress'))

    expect(told['fences']).toMatch(
      /^not run: no destination responds, including the destinations that class agent may reach/,
    )
    expect(told['names']).toMatch(
      /^fail: .*api\.github\.com:443.*: allowed for class agent, but none is reachable$/,
    )
    expect(status).toBe(1)
  })
})

describe('in mode closed', () => {
  const closed = inMode(readCommittedTree('dev'), 'closed')

  test('passes if the tree allows nothing', async () => {
    const { status, told } = await verify(closed)

    expect(told['fences']).toMatch(/^pass: /)
    expect(told['names']).toBe('not run: egress is closed: no network rule uses names')
    expect(status).toBe(0)
  })

  test('fails if the tree still allows a connection', async () => {
    const open = inModeFqdn('dev')

    const { status, told } = await verify({ ...closed, policies: open.policies })

    expect(told['fences']).toMatch(/^fail: egress is closed, but a sandbox reaches .*api\.github\.com:443/)
    expect(status).toBe(1)
  })
})

describe('a committed tree, in mode proxy', () => {
  test.each(['dev', 'local', 'pr-example', 'prod'])(
    'passes for %s if sandboxes reach only the proxy',
    async (name) => {
      const tree = readCommittedTree(name)
      const { told, made } = await verify(tree)

      expect(tree.environment.egress.mode).toBe('proxy')
      expect(told['fences']).toMatch(/^pass: \d+ targets, probed from class command$/)
      expect(told['names']).toMatch(/^not run: egress is proxy/)
      expect(made).toEqual(['command'])
    },
  )

  test('does not count silence as a pass if sandboxes cannot reach the proxy', async () => {
    const { status, told } = await verify(without(readCommittedTree('dev'), 'command-egress'))

    expect(told['fences']).toMatch(/^not run: no destination responds.*10\.0\.0\.128:3128/)
    expect(status).toBe(1)
  })

  test('fails if sandboxes reach more than the proxy', async () => {
    const { status, told } = await verify({ ...readCommittedTree('dev'), policies: [] })

    expect(told['fences']).toMatch(/^fail: a sandbox reaches .*169\.254\.169\.254:80/)
    expect(status).toBe(1)
  })
})

test('rejects an allowed destination as --unlisted', async () => {
  const { told } = await verify(inModeFqdn('dev'), '--unlisted', 'api.github.com:443')

  expect(told['names']).toBe('not run: --unlisted names api.github.com:443, which class agent may reach')
})
