import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { ForkRun, StartRun } from '../../contracts/api.ts'
import { gitService } from './git-rig.ts'
import { alice, dataOf, follow, shell, tool } from './service-rig.ts'

const DONE = tool('report_outcome', { outcome: 'succeeded' })

it('a fork continues the conversation on a clone of a repository', async () => {
  const place = await gitService()
  const { service, store } = place
  const url = `${place.server.url}/team/app.git`
  const turns = [
    [shell('echo mine > old.txt'), DONE],
    [shell('ls; git log --format=%H -1'), DONE],
  ]
  const source = await service.startRun(
    alice,
    StartRun.parse({
      ...{ task: 'begin', workspace: { kind: 'empty' }, agent: { kind: 'scripted', plan: { turns } } },
    }),
  )
  await follow(service, source.id)
  const fork = (to: string) =>
    service.forkRun(alice, source.id, ForkRun.parse({ task: 'go on', workspace: { kind: 'git', url: to } }))

  const { id } = await fork(url)
  let session: string | undefined
  const events = await follow(service, id, async ({ type }) => {
    if (type === 'workspace.cloned') session = (await store.readCheckpoint(id))?.session
  })

  const commit = execFileSync('git', ['rev-parse', 'main'], {
    cwd: join(place.repositories, 'team/app.git'),
    encoding: 'utf8',
  }).trim()
  expect(dataOf(events, 'workspace.cloned')).toMatchObject([{ url, commit }])
  const output = dataOf(events, 'command.output')
    .map(({ chunk }) => chunk)
    .join('')
  expect(output).toContain(commit)
  expect(output, 'a file of the source').not.toContain('old.txt')
  const run = await service.readRun(alice, id)
  expect(run.source).toMatchObject({ runId: source.id, copied: ['session'] })
  expect(session, 'the conversation is kept, for a sandbox that is lost in the first turn').toBeDefined()
  await expect(fork('git@git.example.com:team/app.git')).rejects.toThrow(/https/)
  await expect(fork(`${place.server.url}/team/other`)).rejects.toThrow(/team\/other/)
})
