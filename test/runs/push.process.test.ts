import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import type { PlanStep } from '../../contracts/agents.ts'
import { gitService } from './git-rig.ts'
import { alice, aRun, dataOf, follow, shell } from './service-rig.ts'

type Service = Awaited<ReturnType<typeof gitService>>

const git = ({ repositories }: Service, ...args: string[]) =>
  execFileSync('git', args, { cwd: join(repositories, 'team/app.git'), encoding: 'utf8' }).trim()

async function worked(place: Service, steps: PlanStep[]) {
  const workspace = { kind: 'git', url: `${place.server.url}/team/app.git` } as const
  const { id } = await place.service.startRun(alice, { ...aRun('/', steps), workspace } as never)
  return { id, events: await follow(place.service, id) }
}

it('pushes the stored result of a run for a person, whose commands may not push', async () => {
  const place = await gitService()
  const { id, events } = await worked(place, [
    shell('echo more >> README && git commit -qam work && echo new > file'),
    shell(
      `git push -q origin "HEAD:refs/heads/agentweaver/$(cat /dev/null)x" 2>&1; echo prefix=$AGENTWEAVER_BRANCH_PREFIX.`,
    ),
  ])
  const results = JSON.stringify(dataOf(events, 'tool.result'))
  expect(results).toContain('a person pushes the results of this run')
  expect(results).toContain('prefix=.')
  expect(place.server.refs('team/app')).toEqual(['refs/heads/main'])

  const pushed = await place.service.pushResults(alice, id, { branch: 'fix-login' })

  const branch = `agentweaver/${id}/fix-login`
  const diff = await place.service.readDiff(alice, id)
  expect(pushed).toEqual({
    runId: id,
    repository: `${place.server.url}/team/app.git`,
    branch,
    commit: diff.branch?.commit,
  })
  expect(place.server.refs('team/app')).toEqual([`refs/heads/${branch}`, 'refs/heads/main'])
  expect(git(place, 'log', '--format=%s', `main..${branch}`).split('\n')).toEqual([
    `Uncommitted changes of ${id}`,
    'work',
  ])
  expect(git(place, 'show', `${branch}:file`)).toBe('new')
})
