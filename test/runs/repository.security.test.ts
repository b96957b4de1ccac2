import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { alice, aRun, dataOf, follow, shell, useService } from './service-rig.ts'

const use = useService()

/** A repository with these settings in its only commit, or with none. */
function aRepository(path: string, settings?: string): void {
  mkdirSync(join(path, '.agentweaver'))
  if (settings !== undefined) writeFileSync(join(path, '.agentweaver/settings.yml'), settings)
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b.example', ...args], { cwd: path })
  git('init', '-q')
  git('add', '-A')
  git('commit', '-q', '--allow-empty', '-m', 'first')
}

it('works in a repository', async () => {
  const { service, aWorkspace } = use()
  const path = aWorkspace()
  aRepository(path)

  const run = await service.startRun(alice, aRun(path, [shell('echo made > file')]))

  expect(dataOf(await follow(service, run.id), 'done')).toEqual([{ state: 'succeeded' }])
  expect((await service.readDiff(alice, run.id)).files).toMatchObject([{ path: 'file', status: 'added' }])
})

it('takes the settings of the commit, not those that an agent left in the folder', async () => {
  const { service, aWorkspace } = use()
  const path = aWorkspace()
  aRepository(path, 'shell_enabled: false\n')
  writeFileSync(join(path, '.agentweaver/settings.yml'), 'shell_enabled: true\n')

  const run = await service.startRun(alice, aRun(path, [shell('echo made > file')]))
  const events = await follow(service, run.id)

  expect(dataOf(events, 'tool.denied')).toHaveLength(1)
  expect(existsSync(join(path, 'file'))).toBe(false)
})
