import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { PlanStep } from '../../contracts/agents.ts'
import { CreateSandbox, StartCommand } from '../../contracts/api.ts'
import { until } from '../helpers/until.ts'
import { kill, startServer } from './server-rig.ts'
import { alice, aRun, dataOf, follow, shell, tool, typesOf, useService } from './service-rig.ts'

const SECRET = 'sk-not-to-be-told-4711'
const use = useService({ OPENAI_BASE_URL: 'http://127.0.0.1:1/v1', OPENAI_API_KEY: SECRET })

const git = (path: string, script: string) =>
  execFileSync('sh', ['-ec', script], {
    cwd: path,
    encoding: 'utf8',
    env: {
      PATH: process.env['PATH'],
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_AUTHOR_NAME: 'a',
      GIT_AUTHOR_EMAIL: 'a@b.example',
      GIT_COMMITTER_NAME: 'a',
      GIT_COMMITTER_EMAIL: 'a@b.example',
    },
  })

/** A repository of the user, and the service that works on it. */
function aRepository() {
  const rig = use()
  const path = rig.aWorkspace()
  git(path, 'git init -q -b main; echo one >a.txt; git add .; git commit -qm first')
  return { ...rig, path, copies: () => readdirSync(join(rig.config.stateDir, 'workspaces')) }
}

const inPlace = (path: string, steps: PlanStep[]) =>
  aRun(path, steps, { workspace: { kind: 'path', path, mode: 'in-place' } })

async function bytesOf(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const pieces: Uint8Array[] = []
  for await (const piece of chunks) pieces.push(piece)
  return Buffer.concat(pieces)
}

describe('a run on a git repository', () => {
  it('works on a copy, and stores a diff and a bundle before it ends', async () => {
    const { service, path, copies } = aRepository()

    const run = await service.startRun(
      alice,
      aRun(path, [
        shell('pwd; echo two >>a.txt; echo "{}" >package.json'),
        tool('create', { path: 'b.txt', file_text: 'b' }),
      ]),
    )
    const events = await follow(service, run.id)

    expect(run.workspace).toEqual({ kind: 'path', path, mode: 'isolated' })
    expect(git(path, 'git status --short; cat a.txt')).toBe('one\n')
    expect(dataOf(events, 'workspace.prepared')).toEqual([
      { mode: 'isolated', path, files: 1, bytes: 4, hasUncommittedChanges: false, readOnly: [] },
    ])
    expect(dataOf(events, 'workspace.handoff')).toEqual([{ path: 'package.json', kind: 'packages' }])
    expect(dataOf(events, 'workspace.results')).toEqual([
      { files: 3, additions: 3, deletions: 0, ignored: 0, handOff: 1, hasBranch: true, problems: [] },
    ])
    expect(typesOf(events).slice(-5)).toEqual([
      'workspace.handoff',
      'workspace.results',
      'run.outcome',
      'sandbox.execution_pod.released',
      'done',
    ])
    const diff = await service.readDiff(alice, run.id)
    expect(diff.files.map((file) => file.path)).toEqual(['a.txt', 'b.txt', 'package.json'])
    expect(String(await bytesOf(await service.readPatch(alice, run.id)))).toContain('+two\n')
    expect(String(await bytesOf(await service.readBundle(alice, run.id)))).toMatch(/^# v2 git bundle\n/)
    await expect(service.downloadWorkspace(alice, run.id, AbortSignal.timeout(600_000))).rejects.toThrow(
      /its copy of the folder is gone\. "agentweaver diff run_\w+" shows .*"agentweaver fetch run_/,
    )
    expect(copies()).toEqual([])
  })

  it('leaves its results also when it fails, is cancelled, or loses its sandbox', async () => {
    const { service, store, path } = aRepository()
    const steps = [shell('echo two >>a.txt; echo written'), shell('sleep 60')]
    const afterWriting = async (act: (id: string) => Promise<unknown>) => {
      const run = await service.startRun(alice, aRun(path, steps))
      let isDone = false
      const events = await follow(service, run.id, async ({ type, data }) => {
        if (isDone || type !== 'command.output' || !('chunk' in data) || !data.chunk.includes('written'))
          return
        isDone = true
        await act(run.id)
      })
      const { files } = await service.readDiff(alice, run.id)
      return { state: dataOf(events, 'done')[0]?.state, files: files.map((file) => file.path) }
    }

    const cancelled = await afterWriting((id) => service.cancel(alice, id))
    const lost = await afterWriting(async (id) => {
      const claim = (await store.listClaims(['bound'])).find(({ runId }) => runId === id)
      const { pid } = claim!.handle as { pid: number }
      process.kill(pid, 'SIGKILL')
      await until('the run continues in another sandbox', async () => {
        const { state, generation } = await service.readRun(alice, id)
        return state === 'running' && generation === 2
      })
      await service.cancel(alice, id)
    })
    const failed = await service.startRun(
      alice,
      aRun(path, [shell('echo two >>a.txt'), tool('report_outcome', { outcome: 'failed' })]),
    )
    await follow(service, failed.id)

    expect(cancelled).toEqual({ state: 'cancelled', files: ['a.txt'] })
    expect(lost).toEqual({ state: 'cancelled', files: ['a.txt'] })
    expect((await service.readDiff(alice, failed.id)).files).toHaveLength(1)
  })

  it('has no diff while it runs', async () => {
    const { service, path } = aRepository()
    const run = await service.startRun(alice, aRun(path, [shell('sleep 60')]))

    await expect(service.readDiff(alice, run.id)).rejects.toMatchObject({ code: 'run_not_ready' })

    await service.cancel(alice, run.id)
    await follow(service, run.id)
  })

  it('hides the secrets of the service in the diff, and says so', async () => {
    const { service, path } = aRepository()
    const run = await service.startRun(alice, aRun(path, [shell(`echo ${SECRET} >>a.txt`)]))
    await follow(service, run.id)

    const patch = String(await bytesOf(await service.readPatch(alice, run.id)))

    expect(patch).toContain('a.txt')
    expect(patch).not.toContain(SECRET)
    expect((await service.readDiff(alice, run.id)).patch.isRedacted).toBe(true)
  })
})

describe('a run in place', () => {
  it('changes the files, and reports to the agent and the user the git directory that it left unchanged', async () => {
    const { service, path } = aRepository()

    const run = await service.startRun(
      alice,
      inPlace(path, [shell('echo two >>a.txt; git init -q sub'), shell('ls -a sub')]),
    )
    const events = await follow(service, run.id)

    expect(readFileSync(join(path, 'a.txt'), 'utf8')).toBe('one\ntwo\n')
    expect(dataOf(events, 'workspace.held')).toEqual([{ count: 1, names: ['sub/.git'], isComplete: true }])
    const [first] = dataOf(events, 'tool.result')
    expect(first?.outcome).toMatchObject({
      content: expect.stringMatching(/renamed to \*\.agentweaver-held: sub\/\.git/),
    })
    expect(
      dataOf(events, 'command.output')
        .map(({ chunk }) => chunk)
        .join(''),
    ).toContain('.git.agentweaver-held')
    expect(dataOf(events, 'workspace.results')[0]).toMatchObject({ files: 1, hasBranch: true })
  })

  it('is refused what git itself reads and executes, by command and by tool', async () => {
    const { service, path } = aRepository()
    git(
      path,
      'mkdir hooks; echo mine >hooks/pre-commit; git add .; git commit -qm h; git config core.hooksPath hooks',
    )

    const run = await service.startRun(
      alice,
      inPlace(path, [
        shell('echo evil >hooks/pre-commit; rm hooks/pre-commit; mv hooks x'),
        tool('create', { path: 'hooks/post-commit', file_text: 'evil' }),
        tool('read_file', { path: '.git/config' }),
        tool('create', { path: 'sub/.GIT/config', file_text: 'evil' }),
      ]),
    )
    const events = await follow(service, run.id)

    expect(dataOf(events, 'workspace.prepared')[0]).toMatchObject({ mode: 'in-place', readOnly: ['hooks'] })
    const refused = dataOf(events, 'tool.result').filter(({ outcome }) => !outcome.ok)
    expect(refused.map(({ outcome }) => !outcome.ok && outcome.code)).toEqual(['denied', 'denied', 'denied'])
    expect(git(path, 'git status --short; cat hooks/pre-commit')).toBe('mine\n')
  })

  it('is the mode of a folder without git, with the same reports', async () => {
    const { service, aWorkspace } = use()
    const path = aWorkspace()

    const run = await service.startRun(
      alice,
      aRun(path, [shell('echo x >x; echo y >.envrc; git status --short')]),
    )
    const events = await follow(service, run.id)

    expect(run.workspace).toMatchObject({ mode: 'in-place' })
    expect(readdirSync(path).sort()).toEqual(['.envrc', 'x'])
    expect(dataOf(events, 'workspace.handoff')).toEqual([{ path: '.envrc', kind: 'shell' }])
    expect(dataOf(events, 'workspace.results')[0]).toMatchObject({ files: 2, hasBranch: false })
    await expect(service.readBundle(alice, run.id)).rejects.toMatchObject({ code: 'not_found' })
  })
})

describe('a sandbox without an agent', () => {
  it('works in the folder itself, and on a copy only if the request asks for one', async () => {
    const { service, path } = aRepository()
    const write = StartCommand.parse({ command: 'echo two >>a.txt; git config core.fsmonitor ./evil' })
    const use = async (workspace: object) => {
      const { id } = await service.createSandbox(alice, CreateSandbox.parse({ workspace }))
      const { commandId } = await service.startCommand(alice, id, write)
      const from = { after: 0, signal: AbortSignal.timeout(150_000) }
      for await (const { event } of (await service.subscribe(alice, id, from)) ?? [])
        if (event.type === 'command.exited' && event.data.commandId === commandId) break
      const read = await service.file(alice, id, { operation: { op: 'read', path: '.git/config' } })
      await service.destroySandbox(alice, id)
      await until('it has ended', async () => (await service.readRun(alice, id)).endedAt !== undefined)
      return { id, read: read.result }
    }

    const isolated = await use({ kind: 'path', path, mode: 'isolated' })
    expect(git(path, 'git status --short')).toBe('')
    const own = await use({ kind: 'path', path })

    expect(git(path, 'git status --short; git config core.fsmonitor || echo none')).toBe(' M a.txt\nnone\n')
    for (const { id, read } of [isolated, own]) {
      expect(read).toMatchObject({ ok: false, code: 'denied' })
      expect((await service.readDiff(alice, id)).files).toMatchObject([{ path: 'a.txt' }])
    }
  })
})

describe('a folder that no run is started on', () => {
  it('is a part of a repository, which no branch could be brought back to', async () => {
    const { service, path } = aRepository()
    mkdirSync(join(path, 'sub'))

    await expect(service.startRun(alice, aRun(join(path, 'sub'), []))).rejects.toMatchObject({
      code: 'workspace_invalid',
      message: expect.stringMatching(/lies in the git repository .*--in-place/),
    })
  })

  it('is a folder without git if a copy is requested', async () => {
    const path = use().aWorkspace()
    const request = aRun(path, [], { workspace: { kind: 'path', path, mode: 'isolated' } })

    await expect(use().service.startRun(alice, request)).rejects.toThrow(/not a git repository/)
  })

  it('is no part of a repository that is to be edited in place', async () => {
    const { service, path } = aRepository()
    git(path, 'mkdir sub; echo s >sub/s; git config core.hooksPath sub/hooks')

    const run = await service.startRun(
      alice,
      inPlace(join(path, 'sub'), [shell('echo x >x; mkdir hooks; echo e >hooks/pre-commit')]),
    )
    const events = await follow(service, run.id)

    expect(dataOf(events, 'workspace.prepared')[0]).toMatchObject({ readOnly: ['hooks'] })
    expect(readdirSync(join(path, 'sub')).sort()).toEqual(['s', 'x'])
  })
})

it('continues a run whose service was killed in its copy, stores the results and removes the copy', async () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'aw-folders-')))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, 'project')
  for (const name of ['project', 'tmp', 'other']) mkdirSync(join(folder, name))
  git(path, 'git init -q -b main; echo one >a.txt; git add .; git commit -qm first')
  const first = await startServer(folder)
  const plan = { turns: [[shell('echo two >>a.txt; echo written; sleep 300')]] }
  const { id } = await first.client.startRun({
    task: 'work until killed',
    workspace: { kind: 'path', path },
    agent: { kind: 'scripted', plan },
  })
  const stop = new AbortController()
  try {
    for await (const { event } of first.client.streamEvents(id, { signal: stop.signal })) {
      if (event.type !== 'command.output') continue
      await kill(first.child)
      stop.abort()
    }
  } catch (error) {
    if (!stop.signal.aborted) throw error
  }
  const copies = join(folder, 'state', 'workspaces')
  expect(existsSync(join(copies, id, 'files', 'a.txt')), 'the control: there is a copy').toBe(true)
  mkdirSync(join(copies, `run_${'f'.repeat(32)}`))
  writeFileSync(join(copies, 'stray'), '')

  const second = await startServer(folder)
  await until('the run continues in another sandbox', async () => {
    const { state, generation } = await second.client.readRun(id)
    return state === 'running' && generation === 2
  })
  await until(
    'it wrote again',
    () => readFileSync(join(copies, id, 'files', 'a.txt'), 'utf8').split('two').length === 3,
  )
  await second.client.cancel(id)
  await until('the run has ended', async () => (await second.client.readRun(id)).endedAt !== undefined)

  const diff = await second.client.readDiff(id)
  expect(diff).toMatchObject({ fileCount: 1, additions: 2, branch: { commits: 1 } })
  expect(readdirSync(copies)).toEqual([])
  second.child.kill('SIGTERM')
  await once(second.child, 'exit')
})
