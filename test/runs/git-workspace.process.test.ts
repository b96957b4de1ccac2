import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer, text } from 'node:stream/consumers'
import { expect, it, onTestFinished } from 'vitest'
import type { PlanStep } from '../../contracts/agents.ts'
import type { StartRunInput } from '../../contracts/api.ts'
import { gitService } from './git-rig.ts'
import { alice, aRun, dataOf, follow, shell, typesOf } from './service-rig.ts'

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

it('clones the repository before the first turn, and diffs against its commit', async () => {
  const place = await gitService()
  const base = commitOf(place, 'main')

  const { id, events } = await start(place, [
    shell(
      'cat README && echo more >> README && git commit -qam work && echo new > file && git status --short',
    ),
    shell('git push -q origin "HEAD:refs/heads/${AGENTWEAVER_BRANCH_PREFIX}fix" && git log --format=%an -1'),
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
