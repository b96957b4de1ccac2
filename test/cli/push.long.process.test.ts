import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { gitPlace } from '../runs/git-rig.ts'
import { shell } from '../runs/service-rig.ts'
import { aFolder, runCli, startAtTerminal } from './run-cli.ts'

test('push asks a person, and pushes the result of a run to its branch', async () => {
  const folder = await aFolder('aw-cli-push-')
  const { server, env } = await gitPlace()
  const settings = { env: { ...env, AGENTWEAVER_STATE_DIR: join(folder, 'state') }, cwd: folder }
  const plan = join(folder, 'plan.json')
  const work = shell('echo more >> README && git commit -qam work && echo all: > Makefile && echo a > a')
  writeFileSync(plan, JSON.stringify({ turns: [[work]] }))
  const url = `${server.url}/team/app.git`

  const run = await runCli(['run', 'work', '--git', url, '--network', '--plan', plan], settings)
  const id = /agentweaver push (run_[0-9a-f]{32}) --branch NAME/.exec(run.stdout + run.stderr)?.[1] ?? ''
  expect(id, run.stderr).not.toBe('')
  const diff = await runCli(['diff', id, '--name-only'], settings)
  expect(diff.stdout.trim().split('\n')).toEqual(['Makefile', 'README', 'a'])

  const invalid = await runCli(['push', id, '--branch', '../main', '--yes'], settings)
  expect([invalid.status, invalid.stderr]).toEqual([2, expect.stringContaining('must be of letters')])
  const unasked = await runCli(['push', id, '--branch', 'fix-login'], settings)
  expect([unasked.status, unasked.stdout]).toEqual([2, ''])
  expect(unasked.stderr).toMatch(
    /The run changed files that CI.*\n {2}Makefile .*\nChanged files:\n {2}README\n {2}a\n/,
  )
  expect(unasked.stderr).toContain(`agentweaver/${id}/fix-login can run the CI of ${url} with the secrets`)
  // The commit of the agent, and the uncommitted changes.
  expect(unasked.stderr).toContain(`2 commits. 3 files changed`)
  expect(unasked.stderr).toContain(`See all: agentweaver fetch ${id} --repo DIR`)
  expect(unasked.stderr).toContain('add --yes')
  await using terminal = startAtTerminal(['push', id, '--branch', 'fix-login'], settings)
  await terminal.shows(/Push\? \[y\/N\]/)
  terminal.type('n\r')
  expect(await terminal.exited).not.toBe(0)
  expect(server.refs('team/app')).toEqual(['refs/heads/main'])

  await using confirmed = startAtTerminal(['push', id, '--branch', 'fix-login'], settings)
  await confirmed.shows(/Push\? \[y\/N\]/)
  confirmed.type('y\r')
  expect(await confirmed.exited, confirmed.screen()).toBe(0)
  const branch = `agentweaver/${id}/fix-login`
  expect(confirmed.screen()).toMatch(new RegExp(`${branch}  [0-9a-f]{40}`))
  expect(server.refs('team/app')).toEqual([`refs/heads/${branch}`, 'refs/heads/main'])

  const again = await runCli(['push', id, '--branch', 'fix-login', '--yes', '--json'], settings)
  expect(JSON.parse(again.stdout)).toMatchObject({ runId: id, repository: url, branch })
})

test('push says at once that a run without a repository has no server to push to', async () => {
  const folder = await aFolder('aw-cli-push-')
  const plan = join(folder, 'plan.json')
  writeFileSync(plan, JSON.stringify({ turns: [[shell('true')]] }))
  const settings = { env: { AGENTWEAVER_STATE_DIR: join(folder, 'state') }, cwd: folder }
  const run = await runCli(['run', 'work', '--empty-workspace', '--plan', plan, '--json'], settings)
  const { runId } = JSON.parse(run.stdout.split('\n')[0] ?? '')

  const { status, stderr } = await runCli(['push', runId, '--branch', 'fix', '--yes'], settings)

  expect(status).toBe(2)
  expect(stderr).toContain('did not start from the URL of a repository')
})
