import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { alice, aRun, dataOf, follow, shell, startService } from './service-rig.ts'

const SECRET = 'the-secret-words'

/**
 * A service whose operator allows `outer/work`, which contains the runs and a shared folder. `outer/secret` is a
 * sibling of it.
 */
async function aPlace() {
  const outer = realpathSync(mkdtempSync(join(tmpdir(), 'aw-host-folders-')))
  const [work, secret] = [join(outer, 'work'), join(outer, 'secret')]
  for (const folder of [join(work, 'shared'), secret]) {
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, 'data'), folder === secret ? SECRET : 'public')
  }
  const ceiling = join(outer, 'ceiling.yml')
  writeFileSync(ceiling, `allowed_repository_roots: [${work}]\n`)
  const started = await startService({
    AGENTWEAVER_WORKSPACE_ROOTS: work,
    AGENTWEAVER_CEILING_FILE: ceiling,
    AGENTWEAVER_LOCAL_WARM: '0',
  })
  onTestFinished(async () => {
    await started.close()
    rmSync(outer, { recursive: true, force: true })
  })

  /** Runs a command in a repository that names `root` as a folder to be shown, and returns how its call ended. */
  async function run(name: string, root: string, command: string) {
    const path = join(work, name)
    mkdirSync(join(path, '.agentweaver'), { recursive: true })
    symlinkSync(secret, join(path, 'lnk'))
    const text = `allowed_repository_roots: [${JSON.stringify(root)}]\n`
    writeFileSync(join(path, '.agentweaver/settings.yml'), text)
    const git = (...args: string[]) =>
      execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b.example', ...args], { cwd: path })
    git('init', '-q')
    git('add', '-A')
    git('commit', '-q', '-m', 'first')
    const { id } = await started.service.startRun(alice, aRun(path, [shell(command)]))
    return follow(started.service, id)
  }
  return { work, run }
}

it('shows a command no folder that a link of its repository leads to', async () => {
  const { work, run } = await aPlace()

  const shared = await run('honest', join(work, 'shared'), `cat ${work}/shared/data`)
  const linked = await run('hostile', join(work, 'hostile/lnk'), `cat ${work}/hostile/lnk/data`)

  expect(JSON.stringify(dataOf(shared, 'tool.result'))).toContain('public')
  expect(JSON.stringify(linked)).not.toContain(SECRET)
  expect(JSON.stringify(dataOf(linked, 'tool.result'))).toContain('is reached through a link')
})

it('refuses a root whose spelling hides its way out behind a line feed', async () => {
  const { work, run } = await aPlace()
  mkdirSync(join(work, 'x\n'))

  await expect(run('hostile', `${work}/x\n/../../secret`, 'true')).rejects.toMatchObject({
    message: expect.stringContaining('control characters'),
  })
})
