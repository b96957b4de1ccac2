import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { runCli } from '../cli/run-cli.ts'
import { demoObjects } from './cluster-objects.ts'

it("the demo's pool has the pods of the documentation and of the cluster suites", () => {
  const text = readFileSync('examples/local-cluster/sandboxes.yaml', 'utf8')

  const objects = parseAllDocuments(text).map((document) => document.toJS() as unknown)

  expect(objects).toEqual(JSON.parse(JSON.stringify(demoObjects())))
})

it.each([
  ['no cluster is named', {}, /--cluster needs KUBECONFIG/],
  ['the cluster does not answer', { KUBECONFIG: '/nowhere' }, /kubeconfig/i],
])('says what to do if %s, and leaves nothing', async (_what, env, words) => {
  const { status, stderr } = await runCli(['demo', '--cluster'], { env })

  expect(status).not.toBe(0)
  expect(stderr).toMatch(words)
})

it('rejects a model together with a cluster', async () => {
  const { status, stderr } = await runCli(['demo', '--cluster', '--model', 'any'], {
    env: { KUBECONFIG: 'x' },
  })

  expect(status).toBe(2)
  expect(stderr).toContain('either --model or --cluster')
})
