import { expect, it } from 'vitest'
import { ISOLATING_BACKENDS } from '../helpers/isolating-backends.ts'
import { until } from '../helpers/until.ts'
import { RUNS_PUSH } from './git-rig.ts'
import { COMMIT, pushPlace } from './push-rig.ts'
import { alice, aRun, dataOf, follow, operator, shell } from './service-rig.ts'

const DENY = { results: { push: 'deny' } } as const

it.each(ISOLATING_BACKENDS.map(({ name }) => name))(
  'with %s: pushes the stored result for a person, while the commands of the run may not push',
  async (backend) => {
    const place = await pushPlace({ env: { AGENTWEAVER_ISOLATION: backend } })
    const { id, events } = await place.worked([
      shell(`echo more >> README && ${COMMIT} -am work && echo new > file`),
      shell('git push -q origin HEAD:refs/heads/fix 2>&1; echo "prefix $AGENTWEAVER_BRANCH_PREFIX."'),
    ])
    const results = JSON.stringify(dataOf(events, 'tool.result'))
    expect(results).toContain('agentweaver: The push is refused: a person pushes the results of this run')
    expect(results).toContain(`agentweaver push ${id} --branch NAME`)
    expect(results).toContain('prefix .')
    expect(dataOf(events, 'egress.denied')).toMatchObject([{ rule: 'push' }])
    expect(place.server.refs('team/app')).toEqual(['refs/heads/main'])

    const pushed = await place.service.pushResults(alice, id, { branch: 'fix-login' })

    const branch = `agentweaver/${id}/fix-login`
    const { branch: made } = await place.service.readDiff(alice, id)
    const repository = `${place.server.url}/team/app.git`
    expect(pushed).toEqual({ runId: id, repository, branch, commit: made?.commit })
    expect(place.server.refs('team/app')).toEqual([`refs/heads/${branch}`, 'refs/heads/main'])
    const subjects = place.git('log', '--format=%s', `main..${branch}`).split('\n')
    expect(subjects).toEqual([`Uncommitted changes of ${id}`, 'work'])
    expect(place.git('show', `${branch}:file`)).toBe('new')

    // A repeated push changes nothing, and no sandbox stays.
    expect(await place.service.pushResults(operator, id, { branch: 'fix-login' })).toEqual(pushed)
    await until('all sandboxes are given back', async () => {
      const held = await place.store.listClaims(['requested', 'bound'])
      return held.length === 0
    })
    const audit = await place.store.readAudit({ runId: '', limit: 100 })
    const records = audit.items.filter(({ tool }) => tool === 'push').map(({ record }) => JSON.parse(record))
    expect(records).toMatchObject([
      { kind: 'results.pushed', actor: 'person:alice' },
      { kind: 'results.pushed', actor: 'person:root' },
    ])
    const reasons = [id, repository, branch]
    expect(records.map((one) => one.reasons)).toEqual([
      [...reasons, 'from no commit', `to ${made?.commit}`],
      [...reasons, `from ${made?.commit}`, `to ${made?.commit}`],
    ])
  },
)

it('continues a branch that the run pushed from another sandbox, and no other branch', async () => {
  const place = await pushPlace({ ceiling: RUNS_PUSH })
  const push = (name: string) =>
    shell(`git push -q origin "HEAD:refs/heads/\${AGENTWEAVER_BRANCH_PREFIX}${name}"; echo "pushed $?"`)
  const { id, events } = await place.worked([
    shell(`echo more >> README && ${COMMIT} -am work`),
    push('fix'),
    shell(`echo even more >> README && ${COMMIT} -am more`),
  ])
  expect(JSON.stringify(dataOf(events, 'tool.result'))).toContain('pushed 0')
  const branch = `agentweaver/${id}/fix`
  expect(dataOf(events, 'egress.pushed')).toMatchObject([
    { ref: `refs/heads/${branch}`, commit: place.git('rev-parse', branch) },
  ])

  const pushed = await place.service.pushResults(alice, id, { branch: 'fix' })

  expect(place.git('log', '--format=%s', `main..${branch}`).split('\n')).toEqual(['more', 'work'])
  expect(pushed.commit).toBe(place.git('rev-parse', branch))
  // Another client continued the branch. The proxy refuses before the server does.
  const foreign = place.git(
    ...[
      '-c',
      'user.name=a',
      '-c',
      'user.email=b',
      'commit-tree',
      '-m',
      'foreign',
      '-p',
      branch,
      `${branch}^{tree}`,
    ],
  )
  place.git('update-ref', `refs/heads/${branch}`, foreign)
  expect(await place.reasonOf(place.service.pushResults(alice, id, { branch: 'fix' }))).toMatch(
    /has commits that (?:this run did not push|are not in the result of the run)/,
  )
  expect(place.git('rev-parse', branch)).toBe(foreign)
})

it('pushes the result of a shallow clone, although the branch has moved since', async () => {
  const place = await pushPlace()
  for (const name of ['one', 'two', 'three']) place.server.commit('team/app', { [name]: `${name}\n` })
  const workspace = { kind: 'git', url: `${place.server.url}/team/app.git`, depth: 1 } as const
  const { id } = await place.worked([shell(`git rm -q two && echo old > two && ${COMMIT} -am work`)], {
    workspace,
  })
  place.server.commit('team/app', { four: 'four\n' })
  const base = place.git('rev-parse', 'main~1')

  const { commit } = await place.service.pushResults(alice, id, { branch: 'fix' })

  expect(place.git('rev-parse', `${commit}~1`, `${commit}~2`).split('\n')[0]).not.toBe('')
  expect(place.git('merge-base', commit, 'main')).toBe(base)
  expect(place.git('fsck', '--connectivity-only')).toBe('')
})

it('refuses a push while the run is restricted', async () => {
  const place = await pushPlace()
  const { id } = await place.worked()
  const restrict = (level: 'no-network' | 'read-only' | 'frozen' | 'normal') =>
    place.service.setRestriction(alice, {
      level,
      scope: { kind: 'owner', owner: 'alice' },
      reason: 'a look first',
    })
  for (const level of ['no-network', 'read-only', 'frozen'] as const) {
    await restrict(level)
    const reason = await place.reasonOf(place.service.pushResults(alice, id, { branch: 'fix' }))
    expect(reason).toMatch(new RegExp(`restricted to ${level} by alice: a look first`))
  }
  expect(place.server.refs('team/app')).toEqual(['refs/heads/main'])
  // Without a restriction, the push succeeds.
  await restrict('normal')
  await place.service.pushResults(alice, id, { branch: 'fix' })
})

it('says in words why it pushes nothing', async () => {
  const place = await pushPlace()
  const { service, reasonOf } = place
  const push = (id: string, branch = 'fix') => reasonOf(service.pushResults(alice, id, { branch }))

  const workspace = { kind: 'git', url: `${place.server.url}/team/app.git` } as const
  const waiting = await service.startRun(alice, {
    ...aRun('/', [shell('mkdir build && rm -rf build')]),
    workspace,
  })
  expect(await push(waiting.id)).toMatch(/the diff of run .* is made when it ends; it is/)
  await service.cancel(alice, waiting.id)

  const folder = await service.startRun(alice, aRun(place.aWorkspace(), [shell('echo a > a')]))
  await follow(service, folder.id)
  expect(await push(folder.id)).toContain('did not start from the URL of a repository')

  const nothing = await place.worked([shell('true')])
  expect(await push(nothing.id)).toContain('has nothing to push: it changed nothing that git tracks')

  const denied = await place.worked(
    [shell(`echo a > a && ${COMMIT} -a -m a --allow-empty; git push origin HEAD:x 2>&1`)],
    { policy: DENY },
  )
  expect(JSON.stringify(dataOf(denied.events, 'tool.result'))).toContain(
    'forbid every push (results.push: deny)',
  )
  expect(await push(denied.id)).toContain('forbid every push')

  const { id } = await place.worked()
  place.onPush('echo "the branch is protected" >&2; exit 1')
  expect(await push(id)).toContain('the branch is protected')
  place.server.intercept = (_request, response) => {
    response.writeHead(503).end()
    return true
  }
  expect(await push(id)).toMatch(/failed: git cannot prepare the push: .*503/)
  place.server.intercept = undefined
  expect(place.server.refs('team/app')).toEqual(['refs/heads/main'])
  // If the server responds normally, the push succeeds.
  place.onPush('exit 0')
  await service.pushResults(alice, id, { branch: 'fix' })
  expect(place.server.refs('team/app')).toEqual([`refs/heads/agentweaver/${id}/fix`, 'refs/heads/main'])
})
