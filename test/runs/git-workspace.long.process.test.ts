import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer, text } from 'node:stream/consumers'
import { expect, it, onTestFinished } from 'vitest'
import type { PlanStep } from '../../contracts/agents.ts'
import { ForkRun, type StartRunInput } from '../../contracts/api.ts'
import { ISOLATING_BACKENDS } from '../helpers/isolating-backends.ts'
import { until } from '../helpers/until.ts'
import { gitService, HOST, RUNS_PUSH } from './git-rig.ts'
import { alice, aRun, dataOf, follow, operator, shell, typesOf } from './service-rig.ts'

type Service = Awaited<ReturnType<typeof gitService>>

const commitOf = ({ repositories }: Service, ref: string) =>
  execFileSync('git', ['rev-parse', ref], {
    cwd: join(repositories, 'team/app.git'),
    encoding: 'utf8',
  }).trim()

async function start(place: Service, steps: PlanStep[], change: Partial<StartRunInput['workspace']> = {}) {
  const workspace = { kind: 'git', url: `${place.server.url}/team/app.git`, ...change } as const
  const { id } = await place.service.startRun(alice, { ...aRun('/', steps), workspace } as never)
  return { id, events: await follow(place.service, id) }
}

it.each(ISOLATING_BACKENDS.map(({ name }) => name))(
  'with %s: clones the repository before the first turn, and diffs against its commit',
  async (backend) => {
    const place = await gitService({ ceiling: RUNS_PUSH, env: { AGENTWEAVER_ISOLATION: backend } })
    const base = commitOf(place, 'main')

    const { id, events } = await start(place, [
      shell(
        'cat README && echo more >> README && git commit -qam work && echo new > file && git status --short',
      ),
      shell(
        'git push -q origin "HEAD:refs/heads/${AGENTWEAVER_BRANCH_PREFIX}fix" && git log --format=%an -1',
      ),
    ])

    expect(dataOf(events, 'done')).toEqual([{ state: 'succeeded' }])
    const types = typesOf(events)
    expect(types.indexOf('workspace.cloned')).toBeGreaterThan(types.indexOf('workspace.cloning'))
    expect(types.indexOf('run.started')).toBeGreaterThan(types.indexOf('workspace.cloned'))
    expect(dataOf(events, 'workspace.cloned')).toEqual([
      {
        url: `${place.server.url}/team/app.git`,
        commit: base,
        branch: 'main',
        files: 1,
        bytes: 14,
        submodules: 0,
      },
    ])
    expect((await place.service.readRun(alice, id)).workspace).toMatchObject({ kind: 'git', commit: base })
    expect(dataOf(events, 'tool.result').map((one) => JSON.stringify(one))).toEqual([
      expect.stringContaining('from team/app\\n?? file'),
      expect.stringContaining('Agentweaver'),
    ])
    expect(place.server.refs('team/app')).toEqual([`refs/heads/agentweaver/${id}/fix`, 'refs/heads/main'])
    const diff = await place.service.readDiff(alice, id)
    expect(diff.files).toMatchObject([
      { path: 'README', status: 'modified', additions: 1 },
      { path: 'file', status: 'added', additions: 1 },
    ])
    expect(diff).toMatchObject({ problems: [], branch: { commits: 2 } })
    const patch = await text(Readable.from(await place.service.readPatch(alice, id)))
    expect(patch).toContain('+more')
    const bundle = await buffer(Readable.from(await place.service.readBundle(alice, id)))
    const fetched = fetchInto(place, bundle, `refs/agentweaver/${id}`)
    expect(fetched).toEqual([`Uncommitted changes of ${id}`, 'work', 'first'])
    const audit = await place.store.readAudit({ runId: id, limit: 100 })
    expect(JSON.stringify(audit)).toContain(`commit ${base}`)
  },
)

it('gives the policy of the repository to the forks of its forks', async () => {
  const place = await gitService()
  const url = `${place.server.url}/team/app.git`
  const turn = [shell('cat README')]
  const agent = { kind: 'scripted' as const, plan: { turns: [turn, turn, turn] } }
  const run = aRun('/', [], { workspace: { kind: 'git', url }, agent })
  let { id } = await place.service.startRun(alice, run)
  await follow(place.service, id)
  await place.service.mergePolicy(operator, { redact_pii: true }, { repository: url })
  for (const task of ['again', 'once more']) {
    id = (await place.service.forkRun(alice, id, ForkRun.parse({ task }))).id
    await follow(place.service, id)
  }

  const forked = await place.store.readRun(id)
  expect(forked).toMatchObject({
    settings: { redact_pii: true },
    workspace: { kind: 'run', repository: url },
  })
})

it('continues after a suspension from its checkpoint, without another clone', async () => {
  const place = await gitService()
  const base = commitOf(place, 'main')
  const workspace = { kind: 'git', url: `${place.server.url}/team/app.git` } as const
  const steps = [shell('mkdir build && rm -rf build && echo more >> README && git status --short')]
  const { id } = await place.service.startRun(alice, { ...aRun('/', steps), workspace })
  await until('it waits', async () => (await place.service.readRun(alice, id)).waiting?.for === 'approval')
  await place.service.suspend(alice, id)
  const before = place.server.requests.length
  const [approval] = await place.store.listApprovals(id)

  const requestId = approval?.requestId ?? ''
  await place.service.decideShell(alice, id, { outcome: 'approved', requestId, scope: 'once' })
  const events = await follow(place.service, id)

  expect(dataOf(events, 'run.resumed')).toEqual([{ generation: 2 }])
  expect(place.server.requests.length).toBe(before)
  expect(dataOf(events, 'workspace.cloned')).toHaveLength(1)
  expect(JSON.stringify(dataOf(events, 'tool.result'))).toContain(' M README')
  expect((await place.service.readRun(alice, id)).workspace).toMatchObject({ commit: base })
  expect((await place.service.readDiff(alice, id)).files).toMatchObject([{ path: 'README', additions: 1 }])
})

it('ignores and reports the settings file of the repository', async () => {
  const place = await gitService()
  place.server.commit('team/app', { '.agentweaver/settings.yml': 'shell_enabled: false\n' })

  const { events } = await start(place, [shell('echo works')])

  expect(dataOf(events, 'policy.settings_ignored')).toEqual([
    { path: '.agentweaver/settings.yml', reason: 'added' },
  ])
  expect(JSON.stringify(dataOf(events, 'tool.result'))).toContain('works')
})

it('fails a run whose repository cannot be cloned, with the reason and the remedy', async () => {
  const place = await gitService()

  const noRef = await start(place, [], { ref: 'missing' })
  place.server.intercept = (request, response) => {
    request.resume()
    response.writeHead(404).end()
    return true
  }
  const notFound = await start(place, [])

  expect(dataOf(noRef.events, 'run.failed')).toEqual([
    {
      code: 'workspace_invalid',
      message: expect.stringMatching(/has no branch and no tag "missing"\. Start the run with --ref/),
    },
  ])
  expect(dataOf(notFound.events, 'run.failed')[0]?.message).toMatch(
    /not found.*Check that the repository exists/,
  )
  expect(typesOf(notFound.events)).not.toContain('run.started')
  await expect(place.service.readDiff(alice, notFound.id)).rejects.toThrow('its repository was not cloned')
})

it('ends a run that is cancelled during its clone, and gives its sandbox back', async () => {
  const place = await gitService()
  place.server.intercept = () => true
  const workspace = { kind: 'git', url: `${place.server.url}/team/app.git` } as const
  const { id } = await place.service.startRun(alice, { ...aRun('/', []), workspace })
  await until('the clone waits for the server', () => place.server.requests.length > 0)

  await place.service.cancel(alice, id)
  const events = await follow(place.service, id)

  expect(dataOf(events, 'done')).toEqual([{ state: 'cancelled' }])
  expect(dataOf(events, 'workspace.cloning')).toMatchObject([{ step: 'Connecting' }])
  expect(await place.store.listClaims(['requested', 'bound'])).toEqual([])
})

it('refuses a source that it cannot reach before anything is created', async () => {
  const place = await gitService()
  const at = `https://${HOST}:${place.server.port}`
  const why = async (change: object, policy: object = {}) => {
    const workspace = { kind: 'git', url: `${at}/team/app.git`, ...change } as const
    const request = { ...aRun('/', []), workspace, policy }
    return String(
      await place.service.startRun(alice, request as never).catch((error: Error) => error.message),
    )
  }

  expect(await why({ url: `${at}/team/other` })).toContain('does not allow to clone team/other')
  expect(await why({ url: 'https://github.com/a/b' })).toContain('does not allow the host github.com')
  expect(await why({ url: `https://${HOST}/team/app` })).toContain('at port 443')
  expect(await why({ url: 'git@github.com:a/b.git' })).toContain('SSH has no way out')
  expect(await why({ url: 'https://me:secret@github.com/a/b' })).toMatch(/contains a user or a password/)
  expect(await why({ ref: '--upload-pack=id' })).toContain('begins with "-"')
  expect(await why({}, { network_enabled: false })).toContain('turn off for this run')
  expect(await why({}, { egress_hosts: ['registry.npmjs.org'] })).toContain('settings of this run leave out')
  expect((await place.service.listRuns(alice, { kind: 'agent', limit: 10 })).items).toEqual([])
  expect(place.server.requests).toEqual([])
})

it('refuses a source if the ceiling does not allow the network', async () => {
  const place = await gitService({ ceiling: 'network_enabled: false\n' })

  await expect(start(place, [])).rejects.toThrow('which the ceiling of this service does not allow')
})

/** Fetches a bundle into a clone of the repository, and returns the subjects of its commits. */
function fetchInto({ repositories }: Service, bundle: Uint8Array, ref: string): string[] {
  const folder = mkdtempSync(join(tmpdir(), 'aw-bundle-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const git = (...args: string[]) => execFileSync('git', args, { cwd: folder, encoding: 'utf8' })
  git('clone', '-q', join(repositories, 'team/app.git'), '.')
  writeFileSync(join(folder, 'bundle'), bundle)
  git('fetch', '-q', 'bundle', `${ref}:${ref}`)
  return git('log', '--format=%s', ref).trim().split('\n')
}
